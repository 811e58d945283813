"""A run's path: its profile, with what was asked in place of the profile's own, and what changes on
it while the load runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from gostlab.ask.document import BadInput, Node, is_path
from gostlab.ask.profile import (
    DIRECTIONS,
    Direction,
    LossModel,
    Profile,
    find_profile,
    load_profile,
    path_json,
)
from gostlab.ask.profile import FOLDER as profile_folder
from gostlab.ask.settings import Setting, Settings, merged, widened
from gostlab.ask.trace import changes_of
from gostlab.declared.topologies import topologies, topology_of

# What says how long a path is.
DELAYS = {"rtt", "delay", *(f"{way}.delay" for way in DIRECTIONS)}
# The words for a path, and what they are of a profile's direction.
PATH_WORDS = {
    "rate": "rate_bps",
    "delay": "delay_s",
    "buffer": "buffer",
    "loss": "loss",
    "jitter": "jitter_s",
}


def resolve_sites(
    settings: Settings, explicit: Settings, path: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The sites of a topology that has a path to each, with their own profiles' paths; the one
    under test with the run's. Raises BadInput.
    """
    topology, tested = topology_of(settings["topology"].value), settings["profile"]
    if not topology.path_per_site:
        if "sites" in explicit:
            fitting = " or ".join(one.name for one in topologies().values() if one.path_per_site)
            raise explicit["sites"].node.bad(
                f"sites belong to topology {fitting}, not to {topology.name}"
            )
        return None
    if "sites" not in explicit:
        raise settings["topology"].node.bad(
            f"a {topology.name} needs sites (a list of profiles, one of them the run's own)"
        )
    if tested.value not in explicit["sites"].value:
        raise tested.node.bad_value(f"not one of the {topology.name}'s sites")
    found = {}
    node = explicit["sites"].node
    for name in explicit["sites"].value:
        profile = load_profile_of(replace(tested, value=name, node=node))
        found[name] = path if name == tested.value else path_json(profile.forward, profile.reverse)
    return found


def resolve_links(
    settings: Settings, explicit: Settings, profile: Profile, path: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run's path, and those of the links that have one of their own: of a profile with what is
    written beside it, or the run's with what is. Of two hops the run's path is the first one's.
    Raises BadInput.
    """
    if "links" not in explicit:
        return path, {}
    topology, written = topology_of(settings["topology"].value), explicit["links"]
    if not topology.shape and settings["hops"].value == 1:
        fitting = [one.name for one in topologies().values() if one.shape]
        raise written.node.bad(
            f"links with paths of their own are in topology {', '.join(fitting)}, or there are two"
            " of them in a row (hops: 2)"
        )
    found = {}
    for name, fields in written.value.items():
        own = {key: each for key, each in fields.items() if key != "profile"}
        if "profile" in fields:
            kept = {key: explicit[key] for key in ("mtu", "topology") if key in explicit}
            found[name] = resolve_path(load_profile_of(fields["profile"]), {**kept, **own})
        else:
            of_the_run = {
                key: each
                for key, each in explicit.items()
                if not (("delay" in (key, widened(key)) or key == "rtt") and own.keys() & DELAYS)
            }
            found[name] = resolve_path(profile, merged(of_the_run, own))
    return found.pop("hop1", path), found


def resolve_changes(explicit: Settings, data_direction: str) -> list[Mapping[str, Any]]:
    """The changes of the path while the load runs, those of a trace among them, in the order of
    time. Raises BadInput.
    """
    data = "forward" if data_direction == "upload" else "reverse"
    found: list[dict[str, Any]] = []
    for change in explicit["changes"].value if "changes" in explicit else ():
        ways = (
            ("forward", "reverse")
            if change["direction"] == "both"
            else (change["direction"] or data,)
        )
        found += [
            {
                "at_s": change["at"],
                "direction": way,
                "link": change["link"],
                "rate_bps": change["rate"],
                "delay_ms": None if change["delay"] is None else float(change["delay"] * 1000),
                "jitter_ms": None if change["jitter"] is None else float(change["jitter"] * 1000),
                "loss": None if change["loss"] is None else change["loss"].to_json(),
            }
            for way in ways
        ]
    if "trace" in explicit:
        for step in changes_of(trace_path(explicit["trace"])):
            found.append(
                {
                    "at_s": step.at_s,
                    "direction": step.direction,
                    "rate_bps": step.rate_bps,
                    "delay_ms": step.delay_ms,
                    "jitter_ms": None,
                    "loss": None if step.loss is None else LossModel("random", step.loss).to_json(),
                }
            )
    found.sort(key=lambda change: change["at_s"])
    return [{key: value for key, value in change.items() if value is not None} for change in found]


def trace_path(setting: Setting) -> Path:
    """The file that `trace` names: a path from here or from the experiment's folder, or one beside
    the profiles. Raises BadInput.
    """
    path = first_file(Path(setting.value), beside_its_file(setting), profile_folder / setting.value)
    if path is None:
        raise setting.node.bad_value("no such file, here or in netem_profiles/")
    return path


def load_profile_of(setting: Setting) -> Profile:
    """The profile that a setting names, or the file from here or from the experiment's folder.
    Raises BadInput, where the name stands if there is no such profile.
    """
    own = first_file(Path(setting.value), beside_its_file(setting))
    try:
        path = own if own and is_path(setting.value) else find_profile(setting.value)
    except BadInput as error:
        raise setting.node.bad(str(error)) from None
    return load_profile(str(path))


def resolve_path(profile: Profile, explicit: Settings) -> dict[str, Any]:
    """The profile's path, with a run's own rate, delay, loss, jitter and buffer in place of the
    profile's, in both directions or in one. Raises BadInput.
    """
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
    direction: Direction, way: str, explicit: Settings, shared_by: int
) -> Direction:
    """A direction with what was asked in place of the profile's own. `shared_by`: how many
    directions have a delay, jitter and loss; with one it is the forward one.
    """
    shaped = shared_by == 2 or way == "forward"

    def own(name: str) -> Setting | None:
        """What was asked of this direction, or of both."""
        of_both = explicit.get(name) if shaped or name in ("rate", "buffer") else None
        return explicit.get(f"{way}.{name}") or of_both

    given = {field: setting for name, field in PATH_WORDS.items() if (setting := own(name))}
    wanted = {field: setting.value for field, setting in given.items()}
    if "mtu" in explicit:
        wanted["mtu_bytes"] = explicit["mtu"].value
    if "rtt" in explicit:
        wanted["delay_s"] = explicit["rtt"].value / shared_by if shaped else Fraction(0)
    direction = replace(direction, **wanted)
    ordered = own("ordered")
    if ordered is not None and direction.jitter_s:
        direction = replace(direction, ordered=ordered.value == "on")
    # A run's own delay may be shorter than the profile's jitter.
    return replace(direction, jitter_s=min(direction.jitter_s, direction.delay_s))


def check_rates(path: Mapping[str, Any], node: Node) -> None:
    """On the virtual clock a path without a rate is infinitely fast, its run endless. Raises
    BadInput.
    """
    for name, direction in path.items():
        if direction["rate_bps"] is None:
            raise node.bad(
                f"the {name} direction has no rate limit: on the virtual clock it would be"
                " infinitely fast and the run never end (give it one, like rate: 10gbit, or clock:"
                " real)"
            )


def beside_its_file(setting: Setting) -> Path:
    """What a setting names, from the folder of the file that says so."""
    return Path(setting.node.origin).parent / setting.value


def first_file(*paths: Path) -> Path | None:
    """The first of some paths that is a file."""
    for path in paths:
        with suppress(OSError, ValueError):  # a name that no file can have
            if path.is_file():
                return path
    return None
