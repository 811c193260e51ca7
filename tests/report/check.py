"""check.py RESULTS.json REPORT.html RESULTS.csv [charts|no-charts]: prints what is wrong, a line each.

The page: no address outside of itself, tags that close, ids that stand once and are there when
something points to them, drawings that are XML, every mean, nothing of the results as markup.
The table: every number of the results, once."""
import collections
import csv
import html.parser
import json
import re
import sys
import xml.etree.ElementTree as xml

results = json.load(open(sys.argv[1], encoding="utf-8"))
page = open(sys.argv[2], encoding="utf-8").read()
table = list(csv.DictReader(open(sys.argv[3], encoding="utf-8", newline="")))
charts = sys.argv[4:] != ["no-charts"]
VOID = {"meta", "link", "br", "hr", "img", "input"}
wrong = []


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.texts, self.scripts = [], [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.look(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self.look(tag, attributes)

    def look(self, tag, attributes):
        self.scripts += tag == "script"
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name.startswith("on"):
                wrong.append(f"an event in markup: {tag} {name}={value}")
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                if not value.startswith(("#", "data:,")):
                    wrong.append(f"{tag} {name}={value} leads out of the page")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        self.texts.append(data)


seen = Page()
if seen.open:
    wrong.append(f"not closed: {seen.open}")
if seen.scripts != 1:
    wrong.append(f"{seen.scripts} scripts, and not one")
for name, n in collections.Counter(seen.ids).items():
    if n > 1:
        wrong.append(f"the id {name} stands {n} times")
for name in re.findall(r"""(?:href=["']#|url\(['"]?#)([^"')]+)""", page):
    if name not in seen.ids:
        wrong.append(f"nothing has the id {name}")
for name in set(re.findall(r"https?://[^\"'\s<)]*", page)):
    if not name.startswith("http://www.w3.org/"):  # namespaces
        wrong.append(f"an address: {name}")
if "@import" in page:
    wrong.append("an import")

drawings = re.findall(r"<svg.*?</svg>", page, re.S)
for drawing in drawings:
    try:
        xml.fromstring(drawing)
    except xml.ParseError as error:
        wrong.append(f"a drawing is no XML: {error}: {drawing[:80]}")
whole = [d for d in drawings if 'id="d' in d[:20]]
if charts and len(whole) < 20:
    wrong.append(f"only {len(whole)} drawings")
if not charts and drawings:
    wrong.append("drawings without gnuplot")

text = "".join(seen.texts)
for entry in results["summary"]:
    for what in "loss", "accuracy":
        mean = entry[what]["mean"]
        if mean is not None and f"{mean:.4f}" not in text:
            wrong.append(f"the mean {mean:.4f} of {entry['variant']} is not in the page")
for entry in results["variants"] + results["problems"]:
    if entry["name"] not in text:
        wrong.append(f"{entry['name']} is not in the page as it is")
for said in results["missing"] + [note["text"] for note in results["speed"]["notes"]]:
    if text.count(said) != 1:
        wrong.append(f"is {text.count(said)} times in the page, and not once: {said}")
for entry in results["samples"]:
    if entry["text"].replace("\u0001", "\ufffd") not in text:
        wrong.append("a sample is not in the page as it is")

numbers = collections.Counter()


def count(x):
    if isinstance(x, dict):
        for y in x.values():
            count(y)
    elif isinstance(x, list):
        for y in x:
            count(y)
    elif isinstance(x, (int, float)) and not isinstance(x, bool):
        numbers[float(x)] += 1


count(results)
written = collections.Counter(float(line["value"]) for line in table)
if written != numbers:
    wrong.append(f"numbers that differ: {list((written - numbers) + (numbers - written))[:5]}")
keys = collections.Counter(tuple(line[k] for k in list(line)[:-1]) for line in table)
for key, n in keys.items():
    if n > 1:
        wrong.append(f"{n} lines are about {key}")
        break
for run in results["runs"]:
    for step, loss in zip(run["curve"]["step"], run["curve"]["val_loss"]):
        found = [line["value"] for line in table if line["table"] == "runs" and line["what"] == "curve.val_loss"
                 and line["problem"] == run["problem"] and line["variant"] == run["variant"]
                 and line["seed"] == str(run["seed"]) and line["lr"] == f"{run['lr']:g}"
                 and line["name"] == run["purpose"] and line["at"] == str(step)]
        if [float(x) for x in found] != ([] if loss is None else [loss]):
            wrong.append(f"run {run['variant']} {run['seed']} at step {step}: {found}, not {loss}")
    break  # one run shows how lines are found

for line in wrong[:20]:
    print(line)
sys.exit(bool(wrong))
