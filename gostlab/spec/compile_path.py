# SPDX-License-Identifier: MIT
"""Compile a run's path: its profile with the run's overrides, and its changes during the load."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from gostlab.registry import folders
from gostlab.registry.topologies import topology_of
from gostlab.spec.path_spec import DIRECTIONS, ChangeSpec, PathSpec, direction_of_data, random_loss
from gostlab.spec.profile import Profile, ProfileDirection, compile_path, load_profile
from gostlab.spec.run_request import RunRequest, topologies_with
from gostlab.spec.settings import (
    PATH_FIELDS,
    Setting,
    Settings,
    broader_setting,
    merge_layers,
    of_direction,
)
from gostlab.spec.trace import MAX_ROWS, changes_of
from gostlab.spec.value_types import BOTH
from gostlab.spec.yaml_source import BadInput, find_document, first_file, key_fields, suggest_name

# The settings that determine the delay of a path.
DELAYS = {"rtt", "delay", *(f"{direction}.delay" for direction in DIRECTIONS)}
# The settings of a path that a profile's direction takes as they are, and its fields of them.
KEYS = key_fields(ProfileDirection)
OF_JITTER = ("ordered", "distribution")
PATH_SETTINGS = {name: KEYS[name].name for name in PATH_FIELDS if name not in OF_JITTER}
# The settings of a bottleneck, which every direction has.
OF_BOTTLENECK = ("rate", "buffer", "policer")


def resolve_sites(request: RunRequest, path: PathSpec) -> dict[str, PathSpec] | None:
    """Return the sites' paths by profile; the tested site has the run's. Raises BadInput."""
    if not request.topology.path_per_site:
        return None
    paths = {}
    for name in request.written["sites"].value:
        setting = replace(request.settings["profile"], value=name, node=request.node("sites"))
        profile = load_profile_of(setting)
        is_tested = name == request["profile"]
        paths[name] = path if is_tested else compile_path(profile.forward, profile.reverse)
    return paths


def resolve_links(
    request: RunRequest, profile: Profile, names: Sequence[str]
) -> tuple[PathSpec, dict[str, PathSpec]]:
    """Return the run's path and the paths of links that differ from it. Raises BadInput.

    With two hops, the run's path is that of the first hop. `names` are the run's links.
    """
    path = resolve_path(profile, request.written)
    if "links" not in request.written:
        return path, {}
    written = request.written["links"]
    if not names:
        supporting = topologies_with(lambda topology: topology.shape)
        raise written.node.bad(
            f"links with paths of their own are in topology {supporting}, or there are two of"
            " them in"
            " a row (hops: 2)"
        )
    paths = {}
    for name, fields in written.value.items():
        if name not in names:
            raise written.node.bad(f"no link is called {name} ({suggest_name(name, names)})")
        paths[name] = path_of_link(request, profile, fields)
    path = paths.pop("hop1", path)
    # A change concerns the links without their own path: if the path changes, an equal path counts
    # as a link's own.
    changing = not {"changes", "trace"}.isdisjoint(request.written) or any(
        direction.outages for direction in path
    )
    return path, {
        name: link_path for name, link_path in paths.items() if changing or link_path != path
    }


def path_of_link(request: RunRequest, profile: Profile, fields: Settings) -> PathSpec:
    """Return the path of a link with its own fields. Raises BadInput."""
    overrides = {key: setting for key, setting in fields.items() if key != "profile"}
    if "profile" in fields:
        inherited = {
            key: request.written[key] for key in ("mtu", "topology") if key in request.written
        }
        return resolve_path(load_profile_of(fields["profile"]), {**inherited, **overrides})
    run_settings = {
        key: setting
        for key, setting in request.written.items()
        if not (
            ("delay" in (key, broader_setting(key)) or key == "rtt") and overrides.keys() & DELAYS
        )
    }
    return resolve_path(profile, merge_layers(run_settings, overrides))


def resolve_changes(
    request: RunRequest,
    profile: Profile,
    names: Sequence[str],
    until_s: float,
    path: PathSpec,
    links: Mapping[str, PathSpec],
) -> list[ChangeSpec]:
    """Return the changes of the path until `until_s`, in order of time.

    They include a trace's, and the begin and end of each outage. `names` are the run's links.
    Raises BadInput.
    """
    both = request["direction"] == BOTH
    data = DIRECTIONS if both else (direction_of_data(request["direction"]),)
    compiled: list[ChangeSpec] = []
    outages: list[LinkOutage] = []
    for change in request.written["changes"].value if "changes" in request.written else ():
        link, node = change.link, request.node("changes")
        if link is not None and not names:
            raise node.bad(f"link: {link}: there is one path, and no links with names (leave it)")
        if link is not None and link not in names:
            raise node.bad(f"link: {link}: no link is called that ({suggest_name(link, names)})")
        directions = data
        if change.direction:
            directions = DIRECTIONS if change.direction == BOTH else (change.direction,)
        if change.outage_s is not None:
            outages += [
                LinkOutage(direction, link, change.at_s, change.at_s + change.outage_s)
                for direction in directions
            ]
        if change.new_values:
            at_s = change.at_s
            if change.outage_s is not None:
                at_s = round(at_s + change.outage_s, 6)
            compiled += [
                ChangeSpec(at_s=at_s, direction=direction, link=link, **change.new_values)
                for direction in directions
            ]
    trace = request.written.get("trace")
    compiled += trace_steps(trace, profile, until_s) if trace else ()
    compiled.sort(key=lambda change: change.at_s)
    outages += outages_of_paths(path, links, until_s)
    return with_outages(compiled, sorted(outages, key=lambda one: one.from_s), path, links)


@dataclass(frozen=True)
class LinkOutage:
    """Represent a time in which nothing passes one direction of a link (None: as of a change)."""

    direction: str
    link: str | None
    from_s: float
    to_s: float


def outages_of_paths(
    path: PathSpec, links: Mapping[str, PathSpec], until_s: float
) -> Iterator[LinkOutage]:
    """Yield the outages that paths have of their own, until `until_s`."""
    for link, link_path in [(None, path), *links.items()]:
        for direction in DIRECTIONS:
            for outage in link_path[direction].outages:
                for start_s in outage.starts_s(until_s):
                    yield LinkOutage(direction, link, start_s, round(start_s + outage.for_s, 6))


def with_outages(
    changes: Sequence[ChangeSpec],
    outages: Sequence[LinkOutage],
    path: PathSpec,
    links: Mapping[str, PathSpec],
) -> list[ChangeSpec]:
    """Return changes with those that an outage is: a loss of all, and then the loss without it.

    During an outage no other change of the loss has an effect until the outage's end.
    """
    result = list(changes)
    for outage in outages:
        base = links.get(outage.link or "", path)[outage.direction].loss
        same = [
            change
            for change in result
            if change.loss is not None
            and (change.direction, change.link) == (outage.direction, outage.link)
        ]
        before = [change for change in same if change.at_s <= outage.to_s]
        loss_after = before[-1].loss if before else base
        within = [change for change in before if change.at_s >= outage.from_s]
        result = [replace(change, loss=None) if change in within else change for change in result]
        for at_s, loss in ((outage.from_s, random_loss(1.0)), (outage.to_s, loss_after)):
            result.append(
                ChangeSpec(at_s=at_s, direction=outage.direction, link=outage.link, loss=loss)
            )
        result = [change for change in result if change.new_values]
        result.sort(key=lambda change: change.at_s)
    return result


def trace_steps(setting: Setting, profile: Profile, until_s: float) -> tuple[ChangeSpec, ...]:
    """Return the changes of a trace. Raises BadInput.

    The file is relative to the current directory or the experiment's folder, or lies beside the
    profiles. A trace that was imported with the run's profile restarts at its recording's end, like
    Mahimahi's; the length of any other trace is unknown, and its last row remains in effect.
    """
    folders_ = (Path(setting.node.origin).parent, *folders.search_paths(folders.PROFILES))
    path = first_file(Path(setting.value), *(folder / setting.value for folder in folders_))
    if path is None:
        raise setting.node.bad_value("no such file, here or in netem_profiles/")
    steps = changes_of(path)
    if profile.imported is None or path.stem != profile.name:
        return steps
    length_s = float(profile.imported.length_s)
    cycles = math.ceil(until_s / length_s)
    if cycles * len(steps) > MAX_ROWS:
        raise setting.node.bad_value(f"more than {MAX_ROWS} changes in {until_s:g} s")
    return tuple(
        replace(step, at_s=round(step.at_s + cycle * length_s, 6))
        for cycle in range(max(1, cycles))
        for step in steps
    )


def load_profile_of(setting: Setting) -> Profile:
    """Return the profile of a setting, by name or file. Raises BadInput.

    The file is relative to the current directory or to the folder of the file with the setting.
    """
    folder = Path(setting.node.origin).parent
    try:
        path = find_document(setting.value, folders.PROFILES, "profile", folder)
    except BadInput as error:
        raise setting.node.bad(str(error)) from None
    return load_profile(str(path))


def resolve_path(profile: Profile, explicit: Settings) -> PathSpec:
    """Return the profile's path with the run's overrides of its directions. Raises BadInput."""
    for name in ("delay", *(f"{direction}.delay" for direction in DIRECTIONS)):
        if "rtt" in explicit and name in explicit:
            raise explicit["rtt"].node.bad(f"both rtt and {name}")
    # A topology without a shaped return applies delay, jitter and loss to the forward direction
    # only.
    one_way = "topology" in explicit and not topology_of(explicit["topology"].value).shapes_return
    return compile_path(
        *(
            resolve_direction(
                getattr(profile, direction), direction, explicit, shared_by=1 if one_way else 2
            )
            for direction in DIRECTIONS
        )
    )


def resolve_direction(
    direction: ProfileDirection, direction_name: str, explicit: Settings, shared_by: int
) -> ProfileDirection:
    """Return a direction with the run's overrides.

    `shared_by` is the number of directions that have a delay, jitter and loss; if it is one, that
    is the forward direction.
    """
    shaped = shared_by == 2 or direction_name == "forward"

    def override(name: str) -> Setting | None:
        both = explicit.get(name) if shaped or name in OF_BOTTLENECK else None
        return explicit.get(f"{direction_name}.{name}") or both

    given = {field: setting for name, field in PATH_SETTINGS.items() if (setting := override(name))}
    overrides = {
        field: of_direction(setting.value, direction_name) for field, setting in given.items()
    }
    if "mtu" in explicit:
        overrides["mtu_bytes"] = explicit["mtu"].value
    if "rtt" in explicit:
        overrides["delay_s"] = explicit["rtt"].value / shared_by if shaped else Fraction(0)
        if not shaped:
            overrides["jitter_s"] = Fraction(0)
    direction = replace(direction, **overrides)
    ordered = override("ordered")
    changes = explicit["changes"].value if "changes" in explicit else ()
    has_jitter = direction.jitter_s or any(change.jitter_ms for change in changes)
    if ordered is not None and has_jitter:
        direction = replace(direction, ordered=ordered.value == "on")
    if (distribution := override("distribution")) is not None and has_jitter:
        direction = replace(direction, distribution=distribution.value)
    return direction
