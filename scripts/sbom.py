#!/usr/bin/env python3
"""Writes a bill of materials (CycloneDX 1.5, JSON) of the binary `vitempo` to standard output.

The components are those that `cargo metadata` resolves for one target, without dependencies that only
tests and benchmarks need. The same Cargo.lock gives the same bytes.
"""

import json
import subprocess
import sys
from urllib.parse import quote

TARGET = "x86_64-unknown-linux-gnu"
ROOT = "vitempo-cli"


def metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def shipped(node):
    """The packages that a node needs to be built or to run."""
    kinds = lambda dep: {kind["kind"] for kind in dep["dep_kinds"]}
    return sorted(dep["pkg"] for dep in node["deps"] if kinds(dep) != {"dev"})


def reachable(root, nodes):
    found, left = set(), [root]
    while left:
        package = left.pop()
        if package not in found:
            found.add(package)
            left += shipped(nodes[package])
    return found


def purl(package):
    return f"pkg:cargo/{quote(package['name'])}@{quote(package['version'])}"


def component(package, checksums):
    entry = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
        "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
    }
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def locked_checksums(path):
    import tomllib

    with open(path, "rb") as file:
        packages = tomllib.load(file)["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def check(bom):
    """Fails where a reference has no component or a component of a registry has no digest."""
    references = {bom["metadata"]["component"]["bom-ref"]}
    references |= {entry["bom-ref"] for entry in bom["components"]}
    assert len(references) == len(bom["components"]) + 1, "two components have one reference"
    for dependency in bom["dependencies"]:
        missing = {dependency["ref"], *dependency["dependsOn"]} - references
        assert not missing, f"no component for {missing}"
    for entry in bom["components"]:
        own = entry["name"] == "vitempo" or entry["name"].startswith("vitempo-")
        assert own or "hashes" in entry, f"no digest of {entry['purl']}"


def main():
    data = metadata()
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == ROOT)
    checksums = locked_checksums(f"{data['workspace_root']}/Cargo.lock")
    ids = sorted(reachable(root, nodes), key=lambda id: purl(packages[id]))
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**component(packages[root], checksums), "type": "application"}},
        "components": [component(packages[id], checksums) for id in ids if id != root],
        "dependencies": [
            {
                "ref": purl(packages[id]),
                "dependsOn": [purl(packages[needed]) for needed in shipped(nodes[id])],
            }
            for id in ids
        ],
    }
    check(bom)
    json.dump(bom, sys.stdout, indent=1)
    print()


main()
