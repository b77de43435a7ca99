# fish completion for limitctl -*- shell-script -*-
#
# Nothing that is typed is run: limitctl gets the words as its arguments, and it
# answers with words that are special to no shell.

# Succeeds if there are offers, in $__limitctl_offers, or none but no files either.
function __limitctl_ask
    set -l words (commandline -opc)
    set -l begun (commandline -ct)
    set -l program $words[1]
    if string match -q -- '~/*' $program
        set program $HOME/(string sub -s 3 -- $program)
    end
    command -q -- $program; or set program limitctl # it is an alias
    set -l answer (command $program __tab fish $words "$begun" 2>/dev/null)
    set -g __limitctl_offers $answer[2..-1]
    not string match -q -- 'files*' "$answer[1]"
end

complete -c limitctl -e
complete -c limitctl -n __limitctl_ask -f -a '$__limitctl_offers'
