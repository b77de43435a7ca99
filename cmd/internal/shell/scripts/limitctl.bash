# bash completion for limitctl -*- shell-script -*-
#
# Nothing that is typed is run: limitctl gets the line as one text and takes it apart
# itself, and it answers with words that are special to no shell.

_limitctl() {
    local program=$1 how='' line
    COMPREPLY=()
    case $program in
        "~/"*) program=$HOME/${program:2} ;;
    esac
    type -P -- "$program" >/dev/null || program=limitctl # it is an alias
    while IFS= read -r line; do
        if [[ -z $how ]]; then
            how=$line
        else
            COMPREPLY+=("$line")
        fi
    done <<<"$(command -- "$program" __tab bash "${COMP_TYPE:-9}" "${COLUMNS:-80}" "$2" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)"
    case $how in
        files) # which bash offers when there is no reply
            COMPREPLY=() ;;
        "files "*) # those whose names end so, and directories
            local begun=${COMPREPLY[0]-}
            COMPREPLY=()
            while IFS= read -r line; do
                [[ -z $line ]] || COMPREPLY+=("$line")
            done <<<"$(compgen -d -- "$begun"; compgen -f -X '!*.'"${how#files }" -- "$begun")"
            [[ $(type -t compopt) == builtin ]] && compopt -o filenames ;;
        *)
            if [[ $(type -t compopt) == builtin ]]; then
                compopt +o default
                [[ $how == nospace ]] && compopt -o nospace
            fi ;;
    esac
    return 0
}

complete -o default -F _limitctl limitctl
