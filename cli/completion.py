"""`cgplan completion`: the script that makes a shell complete cgplan's commands, options and values."""

from __future__ import annotations

from typing import Annotated

import typer

from cgplan.errors import InputError, did_you_mean

from .candidate import VARIABLE

EPILOG = """\
Examples:
  source <(cgplan completion bash)
  cgplan completion zsh > ~/.zfunc/_cgplan
  cgplan completion fish > ~/.config/fish/completions/cgplan.fish

Side effects: none; the script is printed, not installed.

Exit codes:
  0  printed
  2  there is no such shell, or bad usage
"""

BASH = """\
# Completion of cgplan for bash: source it, or put it into ~/.local/share/bash-completion/completions/cgplan
_cgplan() {
    local word text
    COMPREPLY=()
    while IFS=$'\\t' read -r word text; do
        COMPREPLY+=("$word")
    done < <(VARIABLE=bash "${COMP_WORDS[0]}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _cgplan cgplan
"""

ZSH = """\
#compdef cgplan
# Completion of cgplan for zsh: put it into a folder of $fpath as _cgplan, or source it after compinit.
_cgplan() {
    local line word shown
    local -a given ready ready_shown open open_shown
    given=("${(@Q)words[2,CURRENT]}")
    for line in "${(@f)$(VARIABLE=zsh ${(Q)words[1]} "${given[@]}" 2>/dev/null)}"; do
        word=${line%%$'\\t'*}
        [[ -n $word ]] || continue
        shown=$word
        [[ $line == *$'\\t'?* ]] && shown="$word  -- ${line#*$'\\t'}"
        if [[ $word == *[=/] ]]; then
            open+=("$word")
            open_shown+=("$shown")
        else
            ready+=("$word")
            ready_shown+=("$shown")
        fi
    done
    (( ${#ready} )) && compadd -U -l -d ready_shown -a ready
    (( ${#open} )) && compadd -U -l -S '' -d open_shown -a open
    return 0
}
if [[ $funcstack[1] == _cgplan ]]; then
    _cgplan "$@"
else
    compdef _cgplan cgplan
fi
"""

FISH = """\
# Completion of cgplan for fish: put it into ~/.config/fish/completions/cgplan.fish
function __cgplan_complete
    set -l given (commandline -opc)
    set -l program $given[1]
    set -e given[1]
    set -l current (commandline -ct)
    VARIABLE=fish $program $given "$current" 2>/dev/null
end
complete -c cgplan -f -a '(__cgplan_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
SHELLS = tuple(SCRIPTS)


def command(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> int:
    """Print the script that completes cgplan's commands, options and values in a shell.

    Releases, GPUs, models, backends and codes are completed as well, and vLLM's own flags behind `--`.
    """
    if shell not in SCRIPTS:
        raise InputError(
            f"there is no completion for {shell[:40]!r}",
            code="CG902",
            where="cgplan completion",
            fix=did_you_mean(shell, SHELLS) or f"give {', '.join(SHELLS)}",
        )
    print(SCRIPTS[shell].replace("VARIABLE", VARIABLE), end="")
    return 0
