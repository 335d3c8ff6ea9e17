"""Kubernetes manifests, custom resources and Helm values."""
