"""Shipped configs fit the published JSON Schema, and broken ones do not."""
import copy
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

root = pathlib.Path(sys.argv[1])
schema = json.loads((root / "configs/schema/moeplan.config.v1.schema.json").read_text())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)

configs = {path.name: json.loads(path.read_text()) for path in sorted((root / "configs").glob("*.json"))}
assert configs, "no shipped configs"
for name, config in configs.items():
    errors = [error.message for error in validator.iter_errors(config)]
    assert not errors, f"{name}: {errors}"

def broken(pointer, value):
    config = copy.deepcopy(configs["glm52.json"])
    target = config
    *path, last = pointer.split("/")[1:]
    for key in path:
        target = target[key]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return config

for pointer, value in [
    ("/schema_version", None),
    ("/deployment/max_num_batch_tokens", 3072),
    ("/deployment/max_num_batched_tokens", "3072"),
    ("/deployment/max_num_batched_tokens", 0),
    ("/quant/source_format", "awq"),
    ("/device/total_memory", "95 gigabytes"),
    ("/model/hidden_size", 6144.5),
]:
    assert not validator.is_valid(broken(pointer, value)), f"{pointer} = {value!r} should not be valid"
print(f"{len(configs)} configs fit, 7 broken ones do not")
