#!/bin/sh
# Measures torch on a CUDA device in one go, for a machine that can be had for a short time.
#
#   scripts/measure_cuda.sh PROGRAM REAL_MODELS OUT STEP...
#
# Paths are absolute. A step is SECONDS:WHAT:PRECISION[:FORMAT[:SETTING,...]], and WHAT is
# `conformance`, `lowering`, or parts of the standard campaign (`vitempo campaign --only`) with a
# share of it (`--scale`) after @, e.g.
#
#   60:conformance:f32::cuda-graph 120:synthetic,real@0.5:f16:channels-last:cuda-graph
#
# DEVICE=cpu rehearses it without a GPU: settings are left out. A step that fails ends nothing; OUT/steps has the exit code and the seconds of each.
set -u
program=$1 real=$2 out=$3
shift 3
device=${DEVICE:-gpu}
mkdir -p "$out"
cd "$out" || exit 1

settings() {
    test "$device" = gpu && test -n "$1" && echo "--setting $1" | sed 's/,/ --setting /g'
}

number=0
for step in "$@"; do
    IFS=: read -r seconds what precision format set <<END
$step
END
    number=$((number + 1))
    share=1
    case $what in *@*) share=${what#*@} what=${what%@*} ;; esac
    name=$(echo "$number-$what-$precision-$format-$set" | tr ',' '+' | sed 's/-*$//; s/--*/-/g')
    how="--precision $precision ${format:+--memory-format $format} $(settings "$set")"
    began=$(date +%s)
    case $what in
    conformance)
        # All precisions and formats.
        timeout "$seconds" "$program" backends check --backend torch --device "$device" \
            $(settings "$set") --format json
        ;;
    lowering)
        timeout "$seconds" "$program" backends check --lowering "$real" --backend torch \
            --device "$device" $how --format json
        ;;
    *)
        "$program" campaign --backend torch --device "$device" --only "$what" --real "$real" \
            --budget "${seconds}s" --scale "$share" $how --out data --format json
        ;;
    esac > "$name.out" 2> "$name.err"
    echo "$name $? $(($(date +%s) - began)) s" | tee -a steps
done
"$program" dataset inspect data --format json > inspect.out 2> inspect.err
