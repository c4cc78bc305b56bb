/**
 * What a shell must be told to complete `espalier`: on Tab it asks `espalier complete -- <words>` for candidates, one a
 * line, and offers files where the last line is `:files`.
 *
 * The words go over as they are, never through `eval`: a half-typed `$(…)` must not run. That is why these few lines are
 * ours: the libraries for it evaluate the line, or offer no files beside their own candidates.
 *
 * What comes back is somebody's text, such as a label: it is put on the line quoted, which zsh and fish do by themselves.
 */
const BASH = `# espalier completion for bash: eval "$(espalier completion bash)"
_espalier() {
  local current="\${COMP_WORDS[COMP_CWORD]}" line
  COMPREPLY=()
  while IFS= read -r line; do
    if [ "$line" = ":files" ]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      printf -v line %q "\${line%%$'\\t'*}"
      COMPREPLY+=("$line")
    fi
  done < <(espalier complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _espalier espalier
`;

const ZSH = `#compdef espalier
# espalier completion for zsh: eval "$(espalier completion zsh)"
_espalier() {
  local line
  local -a offered
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      _files
    else
      offered+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done < <(espalier complete -- "\${words[@]:1:CURRENT-1}" 2>/dev/null)
  _describe espalier offered
}
compdef _espalier espalier
`;

const FISH = `# espalier completion for fish: espalier completion fish | source
function __espalier
  set -l current (commandline -ct)
  for line in (espalier complete -- (commandline -opc)[2..] "$current" 2>/dev/null)
    if test "$line" = ":files"
      __fish_complete_path "$current"
    else
      printf '%s\\n' $line
    end
  end
end
complete -c espalier -f -a '(__espalier)'
`;

/** The script of each shell that is known. */
export const completionScripts = { bash: BASH, zsh: ZSH, fish: FISH } as const;
