# The script of "amberfs demo". Its first argument is amberfs, its second a pause in seconds.
amberfs=$1 pause=$2
export AMBERFS_PAGER=cat

amberfs() { "$amberfs" "$@"; }

say() { printf '\n# %s\n' "$1"; sleep "$pause"; }

show() {
	printf '$ %s\n' "$1"
	eval "$1" || exit 1
	sleep "$pause"
}

mkdir src
printf 'package main\n\nfunc main() {\n\tgreet("world")\n}\n' >src/main.go
printf 'package main\n\nfunc greet(name string) {\n\tprintln("hello,", name)\n}\n' >src/greet.go
printf 'TOKEN=a-secret-that-git-does-not-keep\n' >.env

say 'A toy project, in a workspace of its own:'
show 'find . -type f | sort'
show 'amberfs snapshot before'

say 'A command does more than it should:'
show 'rm src/greet.go .env && sed -i s/greet/print/ src/main.go'
show 'amberfs changed'
show 'amberfs diff before -- src/main.go'

say 'Undo. Git could not restore .env:'
show 'amberfs restore before'
show 'cat .env'

say 'Your own project: amberfs run --from . --apply -- COMMAND'
