# On the other machine, for external_runner.py, which names before it: `own`, a folder for one run; `place`, the
# workspace there; `start`, where the program starts; `seconds`, `blocks` and `flood`, its limits. With GNU's
# programs or BusyBox's.

list() { # what is in the workspace: four files that name it in the same order
    cd "$place" && find . -mindepth 1 -print0 >"$own/$1.names" &&
        find . -mindepth 1 -exec stat -c '%f %s' {} + >"$own/$1.stats" &&
        find . -type l -exec readlink -n {} \; >"$own/$1.links" &&
        find . -type f -exec sha256sum {} + >"$own/$1.sums"
}

alone() { # wait for what another agent runs in the workspace, where this can be known
    exec 9>"$place.lock"
    ! command -v flock >/dev/null || flock 9
}

begin() {
    mkdir -p -m 700 "$place" && mkdir -m 700 "$own" && alone && list before || return
    [ ! -e "$place.last" ] || cat "$place.last" >"$own/last"
    echo "$own 0"
}

unpack() {
    alone && touch "$own/last" "$place.last" || return
    if ! cmp -s "$own/last" "$place.last"; then
        echo "another agent ran something in the workspace meanwhile. Try again"
        return 1
    fi
    echo "$own" >"$place.last"
    mkdir "$own/home" "$own/temporary" "$own/seen" && tar -xzopf "$own/skill" -C "$own/seen" &&
        cd "$place" && xargs -0 rm -rf <"$own/stale" && tar -xzopf "$own/fresh" && cd "$start"
}

run() { # a program, after its variables, in what is unpacked
    (
        ulimit -f "$blocks"
        exec timeout -k 1 "$seconds" env -i PATH="$PATH" HOME="$own/home" TMPDIR="$own/temporary" "$@"
    ) <"$own/stdin" >"$own/out" 2>"$own/err" 9>&-
    code=$?
    for each in out err; do
        head -c "$flood" "$own/$each" >"$own/$each.told"
    done
    list after
    echo "$own $code"
}

fetch() { # the files that are wanted, one behind the other
    cd "$place" && xargs -0 cat <"$own/wanted" >"$own/bytes"
}
