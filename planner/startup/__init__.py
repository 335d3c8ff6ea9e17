"""What a server's start printed, and what follows from it."""
