"""A run's path: its profile with what was asked instead, and what changes during the load."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from gostlab.registry import folders
from gostlab.registry.topologies import topology_of
from gostlab.spec.profile import (
    DIRECTIONS,
    Profile,
    ProfileDirection,
    load_profile,
    path_json,
    random_loss,
)
from gostlab.spec.request import RunRequest, topologies_with
from gostlab.spec.settings import Setting, Settings, merged, widened
from gostlab.spec.trace import MAX_ROWS, Change, changes_of
from gostlab.spec.yaml_source import BadInput, find_document, first_file, key_fields, meant

# What says how long a path is.
DELAYS = {"rtt", "delay", *(f"{way}.delay" for way in DIRECTIONS)}
# The words for a path, and the fields that they are of a profile's direction.
KEYS = key_fields(ProfileDirection)
PATH_WORDS = {word: KEYS[word].name for word in ("rate", "delay", "buffer", "loss", "jitter")}
# The words of a change that run.json has by another name.
CHANGED = {"at": "at_s", "rate": "rate_bps", "delay": "delay_ms", "jitter": "jitter_ms"}


def resolve_sites(asked: RunRequest, path: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sites' paths by profile, the one under test with the run's. Raises BadInput."""
    if not asked.topology.path_per_site:
        return None
    found = {}
    for name in asked.written["sites"].value:
        setting = replace(asked.settings["profile"], value=name, node=asked.node("sites"))
        profile = load_profile_of(setting)
        is_tested = name == asked["profile"]
        found[name] = path if is_tested else path_json(profile.forward, profile.reverse)
    return found


def resolve_links(
    asked: RunRequest, profile: Profile, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run's path (of two hops the first one's), and those of the links that have another.
    `names`: what the run's links are called. Raises BadInput.
    """
    path = resolve_path(profile, asked.written)
    if "links" not in asked.written:
        return path, {}
    written = asked.written["links"]
    if not names:
        fitting = topologies_with(lambda one: one.shape)
        raise written.node.bad(
            f"links with paths of their own are in topology {fitting}, or there are two of them in"
            " a row (hops: 2)"
        )
    found = {}
    for name, fields in written.value.items():
        if name not in names:
            raise written.node.bad(f"no link is called {name} ({meant(name, names)})")
        found[name] = path_of_link(asked, profile, fields)
    path = found.pop("hop1", path)
    # A change is of the links without a path of their own: then even the same path is one.
    changing = not {"changes", "trace"}.isdisjoint(asked.written)
    return path, {name: each for name, each in found.items() if changing or each != path}


def path_of_link(asked: RunRequest, profile: Profile, fields: Settings) -> dict[str, Any]:
    """The path of a link with fields of its own. Raises BadInput."""
    own = {key: each for key, each in fields.items() if key != "profile"}
    if "profile" in fields:
        kept = {key: asked.written[key] for key in ("mtu", "topology") if key in asked.written}
        return resolve_path(load_profile_of(fields["profile"]), {**kept, **own})
    of_the_run = {
        key: each
        for key, each in asked.written.items()
        if not (("delay" in (key, widened(key)) or key == "rtt") and own.keys() & DELAYS)
    }
    return resolve_path(profile, merged(of_the_run, own))


def resolve_changes(
    asked: RunRequest, profile: Profile, names: Sequence[str], until_s: float
) -> list[Mapping[str, Any]]:
    """The changes of the path while the load runs (until then), those of a trace among them, in the
    order of time. `names`: what the run's links are called. Raises BadInput.
    """
    data = "forward" if asked["direction"] == "upload" else "reverse"
    found: list[dict[str, Any]] = []
    for change in asked.written["changes"].value if "changes" in asked.written else ():
        link, node = change["link"], asked.node("changes")
        if link is not None and not names:
            raise node.bad(f"link: {link}: there is one path, and no links with names (leave it)")
        if link is not None and link not in names:
            raise node.bad(f"link: {link}: no link is called that ({meant(link, names)})")
        ways = DIRECTIONS if change["direction"] == "both" else (change["direction"] or data,)
        new = {CHANGED.get(word, word): to for word, to in change.items() if to is not None}
        found += [{**new, "direction": way} for way in ways]
    trace = asked.written.get("trace")
    for step in trace_steps(trace, profile, until_s) if trace else ():
        lost = {"loss": random_loss(step["loss"])} if "loss" in step else {}
        found.append({**step, **lost})
    return sorted(found, key=lambda change: change["at_s"])


def trace_steps(setting: Setting, profile: Profile, until_s: float) -> tuple[Change, ...]:
    """The changes of a trace: a file from here or from the experiment's folder, or one beside the
    profiles. One that was imported with the run's profile begins anew at its recording's end, as
    Mahimahi's do; how long another one is nobody says, and its last row holds. Raises BadInput.
    """
    beside = (Path(setting.node.origin).parent, *folders.places(folders.PROFILES))
    path = first_file(Path(setting.value), *(place / setting.value for place in beside))
    if path is None:
        raise setting.node.bad_value("no such file, here or in netem_profiles/")
    steps = changes_of(path)
    if profile.imported is None or path.stem != profile.name:
        return steps
    length_s = float(profile.imported.length_s)
    times = math.ceil(until_s / length_s)
    if times * len(steps) > MAX_ROWS:
        raise setting.node.bad_value(f"more than {MAX_ROWS} changes in {until_s:g} s")
    return tuple(
        {**step, "at_s": round(step["at_s"] + number * length_s, 6)}
        for number in range(max(1, times))
        for step in steps
    )


def load_profile_of(setting: Setting) -> Profile:
    """The profile that a setting names, or a file from here or its folder. Raises BadInput."""
    beside = Path(setting.node.origin).parent
    try:
        found = find_document(setting.value, folders.PROFILES, "profile", beside)
    except BadInput as error:
        raise setting.node.bad(str(error)) from None
    return load_profile(str(found))


def resolve_path(profile: Profile, explicit: Settings) -> dict[str, Any]:
    """The profile's path with what a run says instead, both ways or one. Raises BadInput."""
    for name in ("delay", *(f"{way}.delay" for way in DIRECTIONS)):
        if "rtt" in explicit and name in explicit:
            raise explicit["rtt"].node.bad(f"both rtt and {name}")
    # There all that happens to packets happens on the one way out.
    one_way = "topology" in explicit and not topology_of(explicit["topology"].value).shapes_return
    return path_json(
        *(
            resolve_direction(getattr(profile, way), way, explicit, shared_by=1 if one_way else 2)
            for way in DIRECTIONS
        )
    )


def resolve_direction(
    direction: ProfileDirection, way: str, explicit: Settings, shared_by: int
) -> ProfileDirection:
    """A direction with what was asked in place of the profile's own. `shared_by`: how many
    directions have a delay, jitter and loss; with one it is the forward one.
    """
    shaped = shared_by == 2 or way == "forward"

    def own(name: str) -> Setting | None:
        of_both = explicit.get(name) if shaped or name in ("rate", "buffer") else None
        return explicit.get(f"{way}.{name}") or of_both

    given = {field: setting for name, field in PATH_WORDS.items() if (setting := own(name))}
    wanted = {field: setting.value for field, setting in given.items()}
    if "mtu" in explicit:
        wanted["mtu_bytes"] = explicit["mtu"].value
    if "rtt" in explicit:
        wanted["delay_s"] = explicit["rtt"].value / shared_by if shaped else Fraction(0)
        if not shaped:
            wanted["jitter_s"] = Fraction(0)
    direction = replace(direction, **wanted)
    ordered = own("ordered")
    changes = explicit["changes"].value if "changes" in explicit else ()
    has_jitter = direction.jitter_s or any(change["jitter"] for change in changes)
    if ordered is not None and has_jitter:
        direction = replace(direction, ordered=ordered.value == "on")
    return direction
