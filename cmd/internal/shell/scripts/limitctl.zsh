#compdef limitctl
# zsh completion for limitctl -*- shell-script -*-
#
# Nothing that is typed is run: limitctl gets the words as they were typed and reads
# them itself, and it answers with words that are special to no shell.

_limitctl() {
    local program=$words[1] how
    local -a answer space
    [[ $program == '~/'* ]] && program=$HOME/${program[3,-1]}
    whence -p -- "$program" >/dev/null || program=limitctl # it is an alias
    answer=("${(@f)$(command -- "$program" __tab zsh "${(@)words[1,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
    how=$answer[1]
    shift answer
    case $how in
        (files*)
            [[ $PREFIX == -*=* ]] && compset -P '*='
            if [[ $how == files ]]; then
                _files
            else
                _files -g "*.${how#files }(-.)"
            fi
            return ;;
        (nospace)
            space=(-S '') ;;
    esac
    (( $#answer )) && _describe -t limitctl limitctl answer "${space[@]}"
}

if [[ "$funcstack[1]" == _limitctl ]]; then # loaded by compinit at the first Tab
    _limitctl "$@"
else
    compdef _limitctl limitctl
fi
