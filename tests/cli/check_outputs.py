"""What commands print, read by parsers that are not ours: every JSON answer fits its published schema, SARIF
fits 2.1.0, JUnit obeys Surefire's element rules, and CSV gives back every cell. Each judge also refuses a
broken answer, so that it is known to judge."""
import copy
import csv
import functools
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
os.environ["MOEPLAN_CACHE_DIR"] = os.path.join(tempfile.mkdtemp(prefix="moeplan-outputs-"), "cache")
LEAN = ["-c", "configs/glm52.json", "--contract", "moeplan-lean-1"]
COMPILE = ["compile", "-c", "configs/glm52.json", "--arch", "sm_120", "--plan", "decode"]
log = "tests/golden/logs/glm52_exl3_325_tp4_dcp4_mtp3_cap1024.log"

# A text that tries every format: line ends, commands, escapes, bidi, markup of all sorts, formulas.
hostile = ("=cmd|'/C calc'!A0\n::error file=x::pwned\r\n##[error]x \x1b[31m \x9b \u202e\u2066 ]]> <img src=x onerror=y>"
           " `a` ``` | **b** [c](d) @team #1 \ufffe \x00 \"quoted\", 'single' % & ; \t end")


def run(*arguments, config=None):
    # Times differ from run to run: without a compiler nothing is timed.
    environment = dict(os.environ, MOEPLAN_NVRTC="/nowhere/libnvrtc.so.13") if arguments[0] == "bench" else None
    done = subprocess.run([binary, *arguments], cwd=root, capture_output=True, env=environment,
                          input=json.dumps(config).encode() if config else b"")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@functools.lru_cache(maxsize=None)
def has_nvrtc():
    return run(*COMPILE)[0] != 4


def hostile_config():
    config = json.loads((root / "configs/glm52.json").read_text())
    config["name"] = hostile
    config["model"]["name"] = hostile
    config["deployment"]["env"]["B12X_" + hostile] = "1"
    return config


def hostile_plans():
    request = json.loads((root / "tests/golden/indexer.jsonl").read_text().splitlines()[0])["request"]
    request["id"] = hostile
    return {"schema_version": 1, "name": hostile, "contract": "sparkinfer-de04125", "plans": [request]}


two_ranks = json.dumps([{"name": "a", "layers": 40}, {"name": "b", "layers": 38}])
@functools.lru_cache(maxsize=None)
def baseline_file():
    """A baseline of a smaller deployment under the config's path, so that everything grew."""
    path = os.path.join(tempfile.mkdtemp(prefix="moeplan-outputs-"), "baseline.json")
    code, _, err = run("baseline", "write", "-c", "configs/glm52.json", "--set",
                       "/deployment/max_num_batched_tokens=2048", "--baseline", path)
    assert code == 0, err
    return path


COMMANDS = [
    (["size", "-c", "configs/glm52.json"], None),
    (["size", "-c", "configs/glm52-mixed325.json"], None),
    (["size", "-c", "configs/glm52.json", "-c", "configs/glm52-e160.json"], None),
    (["size", "-c", "configs/glm52.json", "-c", "/nowhere.json"], None),
    (["size", "-c", "configs/glm52.json", "--set", "/parallel/tp=6"], None),
    (["size", "-c", "-"], hostile_config()),
    (["size", "-c", "-"], hostile_plans()),
    (["explain", "indexer", "--step", "-c", "configs/glm52.json"], None),
    (["explain", "indexer", "-c", "configs/glm52-e160.json"], None),
    (["explain", "indexer", "--step", "-c", "-"], hostile_plans()),
    (["capacity", "--buffers", "-c", "configs/glm52.json"], None),
    (["capacity", "--buffers", "-c", "configs/glm52-mixed325.json"], None),
    (["capacity", "-c", "configs/glm52.json", "--set", "/ranks=" + two_ranks], None),
    (["capacity", "-c", "configs/glm52.json", "--set", "/measured/available_kv=1 MiB"], None),
    (["capacity", "-c", "-"], hostile_config()),
    (["explain", "prefill", "-c", "configs/glm52.json"], None),
    (["explain", "prefill", *LEAN], None),
    (["explain", "decode/expert_rows", *LEAN], None),
    (["size", *LEAN], None),
    (["size", "-c", "configs/glm52-mixed325.json", "--contract", "moeplan-lean-1"], None),
    (["capacity", *LEAN], None),
    (["audit", *LEAN], None),
    (["launches", *LEAN], None),
    (["launches", *LEAN, "--plan", "prefill", "--live-tokens", "700"], None),
    (["check", *LEAN, "--baseline", baseline_file()], None),
    (["diff", "configs/glm52.json", "--contracts", "sparkinfer-de04125,moeplan-lean-1"], None),
    (["sweep", *LEAN, "--axis", "capacity=512,3072", "--columns", "bytes,slots,sound,cold_keys,reachable,bar"],
     None),
    (["explain", "decode/fc1_c_tmp", "-c", "configs/glm52.json"], None),
    (["explain", "kv", "-c", "configs/glm52.json"], None),
    (["explain", "total", "-c", "configs/glm52-mixed325.json"], None),
    (["explain", "indexer prefill", "-c", "configs/glm52.json"], None),
    (["devices"], None),
    (["devices", "--probe"], None),
    (["cache", "info"], None),
    (["cache", "verify"], None),
    (["audit", "-c", "configs/glm52.json"], None),
    (["audit", "-c", "configs/glm52-mixed325.json", "--set", "/quant/mixed_form=serial"], None),
    (["audit", "-c", "-", "--assume-blocks", "last"], hostile_plans()),
    (["launches", "-c", "configs/glm52.json"], None),
    (["launches", "-c", "configs/glm52-mixed325.json"], None),
    (["launches", "-c", "configs/glm52.json", "--set", "/deployment/env/VLLM_EXL3_TRELLIS_BLOCK_M=16"], None),
    (["launches", "-c", "configs/glm52.json", "--plan", "prefill", "--live-tokens", "700"], None),
    (["size", "-c", "configs/glm52.json", "--explain-config"], None),
    (["check", "-c", "configs/glm52.json"], None),
    (["check", "-c", "configs/glm52.json", "-c", "configs/glm52-mixed325.json"], None),
    (["check", "-c", "configs/glm52.json", "--baseline", baseline_file()], None),
    (["check", "-c", "-"], hostile_plans()),
    (["diff", "configs/glm52.json", "configs/glm52-gate8192.json"], None),
    (["baseline", "show", "--baseline", baseline_file()], None),
    (["sweep", "-c", "configs/glm52.json", "--axis", "capacity=512,3072,8192", "--axis", "tp=3,4"], None),
    (["sweep", "-c", "configs/glm52.json", "-c", "configs/glm52-e160.json", "--arena", "decode", "--axis",
      "block=8,64,unpinned", "--columns", "bytes,sound,cold_keys,reachable,bar", "--sort", "cold_keys"], None),
    (["sweep", "-c", "-", "--axis", "/model/name=" + json.dumps(hostile)], hostile_config()),
    (["sweep", "-c", "/nowhere.json", "--axis", "tp=4"], None),
    (["validate", "-c", "configs/glm52.json", "--if-available", "--plan", "decode"], None),
    (["bench", "indexer", "-c", "configs/glm52.json", "--if-available"], None),
    (["bench", "moe", "-c", "configs/glm52-e160.json", "--capacity", "512,3072", "--if-available"], None),
    (["bench", "indexer", "--rows", "1", "--context", "8k", "--heads", "32", "--if-available"], None),
    (["reconcile", log], None),
    (["reconcile", log, "--set", "/parallel/dcp=2"], None),
    (["reconcile", "tests/golden/logs/glm51_nvfp4_tp8_dcp4_mtp3.log"], None),
    (["reconcile", "/nowhere.log"], None),
]
if has_nvrtc():
    COMMANDS.append((COMPILE, None))
else:
    print("compile is not checked: no NVRTC here")


def is_sweep(arguments):
    """Whose rows leave one by one: without the members that tell a report's tables apart."""
    return arguments[0] == "sweep"


def answers(output):
    for arguments, config in COMMANDS:
        code, out, _ = run(*arguments, "-o", output, config=config)
        assert code in (0, 1, 3, 4), (arguments, code)
        yield arguments, config, code, out


# ---- JSON

@functools.lru_cache(maxsize=None)
def validator_of(name, strict=False):
    schema = json.loads((root / f"configs/schema/moeplan.{name}.v1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(closed(schema) if strict else schema)


def closed(schema):
    """The schema with no room for members that it does not list."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema and "verdict" not in schema.get("required", []):
        out.setdefault("additionalProperties", False)
    elif schema.get("type") == "object" and "verdict" in schema.get("required", []) and "totals" in schema["required"]:
        out["additionalProperties"] = False
    return out


def strict_items(name, table):
    items = validator_of(name, strict=True).schema["properties"][table]["items"]
    return items.get("additionalProperties") is False


def name_of(answer):
    return re.fullmatch(r"moeplan\.(\w+)/1", answer["schema"])[1]


def check_json():
    seen = set()
    for arguments, _, _, out in answers("json"):
        answer = json.loads(out)
        for part in [answer, *answer.get("reports", [])]:
            name = name_of(part)
            seen.add(name)
            for strict in (False, True):
                errors = [e.message for e in validator_of(name, strict).iter_errors(part)]
                assert not errors, f"{arguments}: {errors[:3]}"
            # Whatever is listed as required is needed, and every member has the type it should have.
            for key in validator_of(name).schema["required"]:
                broken = copy.deepcopy(part)
                del broken[key]
                assert not validator_of(name).is_valid(broken), f"{name} without {key}"
            for key in part:
                broken = dict(part, **{key: 1.5})
                assert not validator_of(name).is_valid(broken), f"{name} with {key} = 1.5"
            for key, rows in part.items():
                if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict) or key == "reports":
                    continue
                for member in rows[0]:
                    broken = copy.deepcopy(part)
                    broken[key][0][member] = 1.5
                    assert not validator_of(name).is_valid(broken), f"{name}: {key}/0/{member} = 1.5"
                # Of members that the command line names, anything may be one.
                if not strict_items(name, key):
                    continue
                assert not validator_of(name, strict=True).is_valid(
                    dict(part, **{key: [dict(rows[0], unheard_of=1)]})), f"{name}: {key} takes any member"
    assert seen == {"plan", "explain", "capacity", "audit", "launches", "launch_key", "sweep", "check", "checks", "diff",
                    "baseline_report", "config_report", "reconcile", "devices", "cache", "validate", "bench", "bench_moe", "reports", "errors"} | ({"compile"} if has_nvrtc() else set()), seen
    return len(COMMANDS)


# ---- JSON lines

def check_jsonl():
    count = 0
    for arguments, config, _, out in answers("jsonl"):
        assert out.endswith("\n") or (is_sweep(arguments) and not out)
        for line in out.split("\n")[:-1]:
            row = json.loads(line)
            if is_sweep(arguments):
                assert "error" in row and ("config" in row) == (arguments.count("-c") > 1), (arguments, line)
                continue
            assert isinstance(row["table"], str) and isinstance(row["report"], str), (arguments, line)
            count += 1
    return count


# ---- SARIF

TEXT = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"],
        "additionalProperties": False}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
LOCATION = {
    "type": "object", "required": ["physicalLocation"], "additionalProperties": False,
    "properties": {
        "physicalLocation": {
            "type": "object", "required": ["artifactLocation", "region"], "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object", "required": ["uri"], "additionalProperties": False,
                    "properties": {"uri": {"type": "string", "pattern": "^(file:///)?[A-Za-z0-9._~%/-]+$"},
                                   "uriBaseId": {"const": "%SRCROOT%"}}},
                "region": {
                    "type": "object", "required": ["startLine", "startColumn"], "additionalProperties": False,
                    "properties": {"startLine": {"type": "integer", "minimum": 1},
                                   "startColumn": {"type": "integer", "minimum": 1}}}}},
        "logicalLocations": {
            "type": "array", "items": {
                "type": "object", "required": ["fullyQualifiedName"], "additionalProperties": False,
                "properties": {"fullyQualifiedName": {"type": "string"}}}}}}
# What 2.1.0 requires of the parts that are emitted, and no part that it does not know.
SARIF = {
    "type": "object", "required": ["version", "runs"], "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {
            "type": "object", "required": ["tool", "results"], "additionalProperties": False,
            "properties": {
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "tool": {"type": "object", "required": ["driver"], "additionalProperties": False, "properties": {
                    "driver": {"type": "object", "required": ["name", "rules"], "additionalProperties": False,
                               "properties": {
                                   "name": {"const": "moeplan"},
                                   "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
                                   "rules": {"type": "array", "uniqueItems": True, "items": {
                                       "type": "object", "additionalProperties": False,
                                       "required": ["id", "shortDescription", "fullDescription", "help"],
                                       "properties": {
                                           "id": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
                                           "shortDescription": TEXT, "fullDescription": TEXT, "help": TEXT,
                                           "defaultConfiguration": {
                                               "type": "object", "additionalProperties": False,
                                               "properties": {"level": LEVEL}}}}}}}}},
                "results": {"type": "array", "items": {
                    "type": "object", "additionalProperties": False,
                    "required": ["ruleId", "ruleIndex", "level", "message", "partialFingerprints"],
                    "properties": {
                        "ruleId": {"type": "string"}, "ruleIndex": {"type": "integer", "minimum": 0},
                        "level": LEVEL, "message": TEXT,
                        "locations": {"type": "array", "minItems": 1, "maxItems": 1, "items": LOCATION},
                        "partialFingerprints": {"type": "object", "minProperties": 1,
                                                "additionalProperties": {"type": "string", "minLength": 1}},
                        "properties": {"type": "object"}}}}}}}}}


def sarif_errors(sarif):
    errors = [e.message for e in jsonschema.Draft202012Validator(SARIF).iter_errors(sarif)]
    if errors:
        return errors
    run = sarif["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    prints = [result["partialFingerprints"]["moeplan/v1"] for result in run["results"]]
    if len(set(ids)) != len(ids):
        errors.append("a rule twice")
    if len(set(prints)) != len(prints):
        errors.append("a fingerprint twice")
    if any(ids[result["ruleIndex"]] != result["ruleId"] for result in run["results"]):
        errors.append("ruleIndex names another rule")
    return errors


def check_sarif():
    count, some = 0, None
    for arguments, _, code, out in answers("sarif"):
        sarif = json.loads(out)
        assert not sarif_errors(sarif), f"{arguments}: {sarif_errors(sarif)[:3]}"
        results = sarif["runs"][0]["results"]
        # 4 is about the machine, not about what was asked.
        assert any(r["level"] == "error" for r in results) == (code not in (0, 4)), arguments
        for result in results:
            # Shapes of the command line stand in no file; all else does.
            assert ("locations" in result) == ("--rows" not in arguments), arguments
            if "locations" not in result:
                continue
            uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            assert uri in ("stdin", "--set", "--contract", "file:///nowhere.json", "file:///nowhere.log") or (root / uri).exists(), uri
        count += len(results)
        some = some or (sarif if len(results) > 2 else None)
    for breakage in (lambda s: s.update(version="2.2.0"),
                     lambda s: s["runs"][0]["results"][0].pop("message"),
                     lambda s: s["runs"][0]["results"][0].update(level="fatal"),
                     lambda s: s["runs"][0]["results"][0].update(ruleIndex=1),
                     lambda s: s["runs"][0]["results"][0].update(
                         partialFingerprints=s["runs"][0]["results"][1]["partialFingerprints"]),
                     lambda s: s["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
                     lambda s: s["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"].update(uri="a b"),
                     lambda s: s["runs"][0]["tool"].pop("driver"),
                     lambda s: s["runs"][0].update(unheard_of=1)):
        broken = copy.deepcopy(some)
        breakage(broken)
        assert sarif_errors(broken), "a broken SARIF log passes"
    return count


# ---- JUnit

SUITE = {"name", "tests", "failures", "errors", "skipped", "time"}


def junit_errors(text):
    """Surefire's rules for the elements that are emitted."""
    try:
        suites = xml.fromstring(text)
    except xml.ParseError as error:
        return [str(error)]
    errors = [] if suites.tag == "testsuites" else ["root " + suites.tag]
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for suite in suites:
        if suite.tag != "testsuite" or set(suite.attrib) != SUITE:
            errors.append(f"{suite.tag} {suite.attrib}")
            continue
        counted = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        names = [case.get("name") for case in suite]
        if len(set(names)) != len(names):
            errors.append("a testcase twice")
        for case in suite:
            if case.tag != "testcase" or not {"name", "classname", "time"} == set(case.attrib):
                errors.append(f"{case.tag} {case.attrib}")
            tags = [child.tag for child in case]
            if tags not in ([], ["failure"], ["error"], ["system-out"], ["skipped"]):
                errors.append(f"in a testcase: {tags}")
            for child in case:
                if child.tag in ("failure", "error") and set(child.attrib) != {"message", "type"}:
                    errors.append(f"{child.tag} {child.attrib}")
                if child.tag == "skipped" and set(child.attrib) != {"message"}:
                    errors.append(f"{child.tag} {child.attrib}")
                if child.tag == "system-out" and child.attrib:
                    errors.append("attributes on system-out")
            counted["tests"] += 1
            counted["failures"] += "failure" in tags
            counted["errors"] += "error" in tags
            counted["skipped"] += "skipped" in tags
        errors += [f"{key} of {suite.get('name')!r}" for key in counted if int(suite.get(key)) != counted[key]]
        totals = {key: totals[key] + counted[key] for key in totals}
    return errors + [f"{key} in all" for key in totals if int(suites.get(key)) != totals[key]]


def check_junit():
    count, failing = 0, None
    for arguments, _, code, out in answers("junit"):
        assert not junit_errors(out), f"{arguments}: {junit_errors(out)[:3]}"
        suites = xml.fromstring(out)
        assert (suites.get("errors") != "0") == (code == 3), arguments
        assert (suites.get("failures") != "0") == (code == 1), arguments
        count += int(suites.get("tests"))
        if code == 1:
            failing = out
    for broken in (failing.replace('tests="', 'tests="1', 1), failing.replace("<failure", "<problem"),
                   failing.replace("classname", "class"), failing.replace("</testsuite>", "<testcase/></testsuite>"),
                   failing.replace('type="verdict"', ""), failing[:-3], failing.replace("&", "<")
                   if "&" in failing else failing + "<"):
        assert broken != failing and junit_errors(broken), "a broken JUnit file passes"
    return count


# ---- CSV and TSV

def printable(text):
    """What a text looks like in every format, written again from the rule."""
    out = ""
    for index, c in enumerate(text):
        code = ord(c)
        steering = (code < 0x20 or 0x7F <= code < 0xA0 or code in (0x61C, 0x200E, 0x200F) or
                    0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069)
        command = text.startswith("##[", index) or (text.lstrip(" ").startswith("::") and
                                                    index == len(text) - len(text.lstrip(" ")))
        out += "".join(f"\\x{byte:02x}" for byte in c.encode()) if steering or command else c
    return out


def cell_of(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "x".join(map(str, value))
    if isinstance(value, (int, float)):
        return str(value)
    text = printable(value)
    return "'" + text if text[:1] in ("=", "+", "-", "@") and text else text


def rows_of(jsonl):
    for line in jsonl.splitlines():
        row = json.loads(line)
        if row.get("table") not in ("report", "findings", "notes", "errors"):
            yield row


def check_sheets():
    count = 0
    for arguments, config, _, jsonl in answers("jsonl"):
        # The rows of JSON lines and of CSV are the same cells, read by different parsers.
        expected = [{key: cell_of(value) for key, value in row.items()} for row in rows_of(jsonl)]
        for output, dialect in (("csv", {"strict": True}),
                                ("tsv", {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "strict": True})):
            _, out, _ = run(*arguments, "-o", output, config=config)
            if not out:
                assert not expected
                continue
            assert output == "tsv" or out.count("\r\n") == out.count("\n") == out.count("\r")
            read = list(csv.DictReader(io.StringIO(out, newline=""), **dialect))
            assert len(read) == len(expected), (arguments, output)
            for row, wanted in zip(read, expected):
                # The MiB of a sheet are for spreadsheets.
                assert "mib" not in row or row["mib"] == "" or is_sweep(arguments)
                got = {k: v for k, v in row.items() if v and k != "mib"}
                assert got == {printable(k): v for k, v in wanted.items() if v}, (row, wanted)
            count += len(read)
    return count


# ---- GitHub

def check_github():
    """Reads annotations as the runner does."""
    count = 0
    for arguments, config, code, out in answers("github"):
        assert "##[" not in out and out.endswith("\n")
        kinds = {"error": 0, "warning": 0, "notice": 0}
        for line in re.split(r"\r\n|\r|\n", out)[:-1]:
            if not line.lstrip().startswith("::"):
                continue
            match = re.fullmatch(r"::(error|warning|notice) ((?:\w+=[^,:]*)(?:,\w+=[^,:]*)*)::(.*)", line)
            assert match, line
            kinds[match[1]] += 1
            properties = dict(item.split("=", 1) for item in match[2].split(","))
            assert set(properties) in ({"file", "line", "col", "title"}, {"title"}), line
            if "file" in properties and not properties["file"].startswith("/nowhere"):
                assert (root / properties["file"]).exists(), line
            for text in [*properties.values(), match[3]]:
                assert not re.search(r"%(?!25|0A|0D|3A|2C)", text), line
            count += 1
        assert (kinds["error"] > 0) == (code not in (0, 4)), arguments
        assert max(kinds.values()) <= 10
    return count


# ---- Markdown

def check_markdown():
    for arguments, config, _, out in answers("markdown"):
        assert len(out.encode()) <= 1 << 20
        table = None
        for line in out.split("\n"):
            # Every row of a table has as many cells as its head.
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
            assert cells is None or table in (None, cells), line
            table = cells
            tags = re.findall(r"<[^>]*>", line)
            assert set(tags) <= {"<p>", "</p>", "<details>", "</details>", "<summary>", "</summary>"}, line
            assert "@team" not in line, line
            # Lines of HTML hold no markup; in others every mark of somebody's is escaped.
            assert line.startswith("<") or not re.search(r"(?<!\\)`", line), line
        assert out.count("<details>") == out.count("</details>") == out.count("<summary>")
    return len(COMMANDS)


# ---- Pictures and pages

def markup_errors(text, root_tag):
    """Well-formed, and nothing that runs or is loaded."""
    try:
        # What HTML writes otherwise: its doctype, and two tags that it leaves open.
        tree = xml.fromstring(re.sub(r"<(meta [^>]*|br)>", r"<\1/>", text.removeprefix("<!doctype html>\n")))
    except xml.ParseError as error:
        return [str(error)]
    errors = [] if tree.tag.split("}")[-1] == root_tag else [tree.tag]
    for element in tree.iter():
        tag = element.tag.split("}")[-1]
        if tag in ("script", "img", "image", "link", "iframe", "object", "embed", "a", "use", "foreignObject", "form"):
            errors.append(f"<{tag}>")
        for key, value in element.attrib.items():
            name = key.split("}")[-1].lower()
            if name.startswith("on") or name in ("href", "src") or re.search(r"url\(|javascript:", value, re.I):
                errors.append(f"{key}={value!r}")
        if tag == "style" and re.search(r"url\(|@import", element.text or ""):
            errors.append("a style that loads")
    return errors


def check_pictures():
    count, some = 0, None
    for output, root_tag in (("svg", "svg"), ("html", "html")):
        for arguments, config, _, out in answers(output):
            if not out:
                continue
            assert not markup_errors(out, root_tag), f"{arguments}: {markup_errors(out, root_tag)[:3]}"
            if config and config.get("name") == hostile:
                assert "&lt;img src=x onerror=y&gt;" in out or "<img" not in out, arguments
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", out), arguments
            some, count = out, count + 1
        for breakage in (("<text", "<script>x</script><text") if output == "svg" else ("<p", "<script>x</script><p"),
                         (">", "", 1), ("<style>", "<style>@import 'x';"), (" class=", " onload='x' class="),
                         ("</", "<img src='x'/></")):
            broken = some.replace(*breakage)
            assert broken != some and markup_errors(broken, root_tag), (output, breakage)
    return count


def check_all_at_once():
    """All outputs of one run: equal exit codes, and the bytes of each alone."""
    formats = ["json", "jsonl", "csv", "tsv", "markdown", "junit", "sarif", "github", "svg", "html"]
    for arguments, config in COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            outputs = [part for f in formats for part in ("-o", f"{f}={folder}/{f}")]
            code, out, _ = run(*arguments, *outputs, config=config)
            assert out == "", "files alone leave standard output empty"
            for f in formats:
                alone_code, alone, _ = run(*arguments, "-o", f, config=config)
                assert alone_code == code, (arguments, f)
                written = (pathlib.Path(folder) / f).read_bytes().decode()
                assert written == alone or (alone == "" and f in ("csv", "tsv", "svg", "html")), (arguments, f)
    return len(COMMANDS)


for check in (check_json, check_jsonl, check_sarif, check_junit, check_sheets, check_github, check_markdown,
              check_pictures, check_all_at_once):
    print(f"{check.__name__}: {check()}")
