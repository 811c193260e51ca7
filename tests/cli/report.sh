#!/usr/bin/env bash
# report.sh -- compare --report on a small made-up comparison: with charts, and without gnuplot.
# shellcheck source=tests/cli/_lib.sh
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/report
. "$(dirname "$0")/_lib.sh" "$1"
python=$(command -v python3) || { echo "python3 is not there" && exit 77; }
"$python" -c 'import html.parser, xml.etree.ElementTree' 2>/dev/null || { echo "python3 is not whole" && exit 77; }

# a folder with results.json
results() { # DIR [RESULTS]
  mkdir -p "$1" && cp "${2:-$here/sample.json}" "$1/results.json"
}
sound() { # DIR [no-charts]: its page and table
  checks=$((checks + 1))
  "$python" "$here/check.py" "$1/results.json" "$1/report.html" "$1/results.csv" "${@:2}" >said 2>&1 ||
    fail "$1: $(head -n 20 said)"
}
# The ids of the sections, in the page's order.
sections() { grep -oE '<h2 id="[a-z]+"' "$1" | grep -oE '"[a-z]+"' | tr -d '"' | tr '\n' ' '; }

follows_schema "$here/sample.json"

results full
mkdir full/pictures
cat >full/pictures/softmax.svg <<'X'
<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" viewBox="0 0 9 9"><title>t</title>
<style>text, .a b { font: 8px serif } #own { fill: red }</style><g id="own"><text>q</text></g><use href='#own'/></svg>
X
sed 's/own/its/g' full/pictures/softmax.svg >'full/pictures/a_b^{c}@2+window@2.svg'
echo '<svg viewBox="0 0 9 9"><script>x()</script></svg>' >'full/pictures/x<script>alert(1)<_script>&"q".svg'
echo 'of no variant' >full/pictures/elu1.svg
echo 'no picture' >full/pictures/diverges.svg

# --- without gnuplot ---
mkdir none
results bare
last="compare --report without gnuplot"
PATH=$work/none "$bin/compare" --report bare/results.json >out 2>err
code=$?
check "exit code" test "$code" = 0
err_says 'no charts, since gnuplot is not installed \(Debian: gnuplot-nox\)'
sound bare no-charts
check "a sentence in the page" grep -qF 'drawn by gnuplot, which is not installed here' bare/report.html
check "all tables" test "$(grep -c '<table' bare/report.html)" -ge 12
check "all parts but curves and pictures" test "$(sections bare/report.html)" = \
  "what findings speed retrieval positions weights gradcheck samples rates settings runs "
check "not complete" grep -qF '<strong>Not complete.</strong>' bare/report.html

# --- a gnuplot that fails: its last line, and what was at the path stays ---
cat >none/gnuplot <<'X'
#!/bin/sh
echo 'first' >&2
echo 'line 7: out of ink' >&2
exit 3
X
chmod +x none/gnuplot
results kept
echo before >kept/report.html
last="compare --report with a gnuplot that fails"
PATH=$work/none:$PATH "$bin/compare" --report kept/results.json >out 2>err
code=$?
check "exit code" test "$code" = 1
err_says 'gnuplot ended with exit code 3: line 7: out of ink'
check "the page before is still there" test "$(cat kept/report.html)" = before

# --- a gnuplot whose drawing is not one: the page goes without it ---
cat >none/gnuplot <<'X'
#!/bin/sh
echo '<svg viewBox="0 0 9 9" onload="x()"></svg>'
X
results strange
last="compare --report with a gnuplot that draws what a page must not take in"
PATH=$work/none:$PATH "$bin/compare" --report strange/results.json >out 2>err
code=$?
check "exit code" test "$code" = 0
check "it is said" grep -qF 'a picture with the attribute onload is not taken into a page' strange/report.html
check_not "it is not there" grep -qF 'onload=' strange/report.html

# --- results that do not follow the schema: the page goes without that part ---
results odd
sed -i 's/"options": {}/"options": {"n-head": 3}/' odd/results.json
run 0 compare --report odd/results.json
check "an option that is a number" grep -qF -- '--n-head=3 ' odd/report.html

results other
sed -i 's/lina-results-1/lina-results-9/' other/results.json
run 3 compare --report other/results.json
err_says 'of the schema "lina-results-9", and not lina-results-1'
check "nothing was written" test ! -e other/report.html

refused 2 'leave out --out-dir$' compare --report full/results.json --out-dir=elsewhere

# --- with charts ---
if ! command -v gnuplot >/dev/null; then
  skipped "gnuplot is not there"
  finish
fi
run 0 compare --report full/results.json
err_empty
sound full
check "all parts, in their order" test "$(sections full/report.html)" = \
  "what findings learning speed retrieval positions weights pictures gradcheck samples rates settings runs "
check "pictures" test "$(grep -c 'class="picture"' full/report.html)" = 4
check "two are not taken" test "$(grep -c 'Left out: ' full/report.html)" = 2
check "styles stay within" grep -qE '#d[0-9]+ text, #d[0-9]+ \.a b \{.*#d([0-9]+) #d\1-own \{' full/report.html
check "every chart has a caption" test "$(grep -c '<figure><svg' full/report.html)" = "$(grep -c '</svg><figcaption>' full/report.html)"
check "not distinguishable" grep -qF 'title="not distinguishable"' full/report.html
check "diverged" grep -qF '</b> diverged in 1 of 3 runs' full/report.html
check "refused" grep -qF '>refused: needs 18.2 GiB' full/report.html
check_not "sweeps are as long as the runs" grep -qF 'short runs' full/report.html
check "no rate" grep -qF 'Every learning rate that was tried (0.0003, 0.001, 0.003) diverged for <b>diverges</b>' full/report.html
cp full/report.html first.html
run 0 compare --report full/results.json
check "the file is the same again" cmp first.html full/report.html
check "no temporaries" no_temporaries .

# --- one evaluation is a point; without a chart there is no legend and no table ---
part() { sed -n "/<h2 id=\"$2\"/,/<h2 id=\"$3\"/p" "$1/report.html"; } # DIR ID NEXT
points() { part "$1" learning speed | grep -oE '<use [^>]*href="#d[0-9]+-gpPt[0-9]+"[^>]*>' | grep -vc ' id='; } # not gnuplot's definitions
check "many evaluations are lines" test "$(points full)" = 0
"$python" - "$here/sample.json" >once.json <<'X'
import json, sys
r = json.load(open(sys.argv[1], encoding="utf-8"))
for run in r["runs"]:
    for of in list(run["curve"].values()) + [run["timing"]["elapsed_s"]]:
        del of[:-1]
for at in r["positions"]:
    at["refused"], at["from"], at["to"], at["loss"] = "hidden tokens", [], [], []
print(json.dumps(r))
X
results once once.json
run 0 compare --report once/results.json
part once learning speed >learning
part once positions weights >positions
check "points of 4, 3 and 3 variants" test "$(points once)" = $((3 * 4 + 6 * 3 + 6 * 3))
check "a legend with the charts" grep -qF 'class="legend"' learning
check "the reason" grep -qF ': hidden tokens.</li>' positions
check_not "no legend without charts" grep -qE 'legend|<table' positions

# --- parts without data are left out; one seed ---
"$python" - "$here/sample.json" >few.json <<'X'
import json, sys
r = json.load(open(sys.argv[1], encoding="utf-8"))
for key in "sweeps positions entropy samples gradcheck".split():
    r[key] = []
for key in r["speed"]:
    r["speed"][key] = []
r["problems"] = r["problems"][:1]
r["complete"], r["missing"] = True, []
text = r["problems"][0]["name"]
r["runs"] = [x for x in r["runs"] if x["problem"] == text and x["seed"] == 1 and x["purpose"] == "main"]
r["summary"] = [x for x in r["summary"] if x["problem"] == text]
for x in r["summary"]:
    x["n"], x["diverged"] = 1, 0
    for what in x["loss"], x["accuracy"], x["difference"] or {}:
        for key in "sd", "ci95", "p":
            if key in what:
                what[key] = None
    if x["difference"]:
        x["difference"]["distinguishable"] = False
print(json.dumps(r))
X
results few few.json
run 0 compare --report few/results.json
check "few parts" test "$(sections few/report.html)" = "what findings learning settings runs "
check "one seed" grep -qF 'from 1 seed: no interval' few/report.html
check_not "complete" grep -qF 'Not complete' few/report.html
check_not "no number that is none" grep -qiE '>[-+]?(nan|inf)<' few/report.html
echo '{"schema": "lina-results-1"}' >empty.json
results empty empty.json
run 0 compare --report empty/results.json
check "nothing to show is a page too" test "$(sections empty/report.html)" = "what "
check_not "and no chart" grep -qF '<figure' empty/report.html
finish
