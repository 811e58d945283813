# SPDX-License-Identifier: MIT
"""Declare what the page offers: settings by their own declarations, presets, colours."""

from __future__ import annotations

from collections.abc import Mapping

from gostlab.cli.settings_help import values_of
from gostlab.registry.congestion_controls import known_names as known_controls
from gostlab.registry.kernels import SHIPPED, declared_kernels, own_kernels
from gostlab.registry.palette import CC_COLOURS, cc_colour
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.serve.question_parser import REFUSED_FLOW_FIELDS, REFUSED_KINDS, REFUSED_SETTINGS
from gostlab.serve.sentences import KIND_LABELS, cc_label
from gostlab.spec.path_spec import DIRECTIONS
from gostlab.spec.profile import list_profiles, load_profile
from gostlab.spec.settings import FLOW_FIELDS, PATH_FIELDS, SETTINGS
from gostlab.spec.yaml_source import KeySchema

# Sliders: the setting, its label, the unit people read and the one of the setting's text, the ends
# of the logarithmic scale, and its marks. A scale with the mark 0 has a place for none.
SLIDERS: tuple[dict[str, object], ...] = (
    {
        "name": "rate",
        "label": "Rate",
        "unit": "Mbit/s",
        "suffix": "mbit",
        "ends": [1, 1000],
        "marks": [1, 10, 100, 1000],
    },
    {
        "name": "rtt",
        "label": "Round trip",
        "unit": "ms",
        "suffix": "ms",
        "ends": [1, 500],
        "marks": [1, 10, 100, 500],
    },
    {
        "name": "loss",
        "label": "Loss",
        "unit": "%",
        "suffix": "%",
        "ends": [0.01, 10],
        "marks": [0, 0.1, 1, 10],
    },
    {
        "name": "buffer",
        "label": "Buffer",
        "unit": "BDP",
        "suffix": "bdp",
        "ends": [0.25, 32],
        "marks": [0.25, 1, 4, 32],
    },
)
# Settings that have controls of their own on the page, and so are not under "Another setting".
WITH_CONTROLS = (
    *(slider["name"] for slider in SLIDERS),
    *"queue ecn tunnel gost flows cc kernel duration profile topology sample changes".split(),
)
# A flow that has a congestion control from the left, for the fields that the page has.
# 10 s have 100 points, as many as a curve shows; with twice as many an answer takes a tenth longer.
PLAIN = {"profile": "plain-100ms", "topology": "dumbbell", "duration": "10s", "sample": "100ms"}
# A profile above this rate begins with FAST_RATE: ten seconds of it would take minutes.
FAST_BPS, FAST_RATE = 300_000_000, "200mbit"
LOAD = {"rate": "20mbit", "rtt": "40ms", "loss": "0%", "buffer": "2bdp"}


def preset(
    title: str, text: str, flows: Mapping[str, Mapping[str, object]], **settings: str
) -> dict[str, object]:
    """Return a preset: its title, a sentence, its settings and its flows."""
    return {
        "title": title,
        "text": text,
        "settings": {**PLAIN, **LOAD, **settings},
        "flows": {name: dict(fields) for name, fields in flows.items()},
    }


CUBIC, BBR, RENO = {"cc": "cubic"}, {"cc": "bbr"}, {"cc": "reno"}
PRESETS = (
    preset(
        "Two controls, one queue",
        "CUBIC fills the queue, BBR models the path: who gets the link?",
        {"a": CUBIC, "b": BBR},
    ),
    preset(
        "A tunnel over a long lossy line",
        "100 ms, 1 % loss, a WebSocket relay: does the upload get through?",
        {"a": CUBIC},
        rtt="100ms",
        loss="1%",
        tunnel="relay+ws",
    ),
    preset(
        "A bloated home router",
        "Four uploads and a call behind a router that buffers far too much.",
        {"upload": {"cc": "cubic", "streams": "4"}, "call": {"kind": "ping", "interval": "50ms"}},
        rate="10mbit",
        rtt="20ms",
        buffer="8bdp",
    ),
    preset(
        "The same router with FQ-CoDel",
        "A queue of its own for each flow: is the call free of the uploads?",
        {"upload": {"cc": "cubic", "streams": "4"}, "call": {"kind": "ping", "interval": "50ms"}},
        rate="10mbit",
        rtt="20ms",
        buffer="8bdp",
        queue="fq_codel",
    ),
    preset(
        "Two versions of BBR",
        "BBR and its third version on one link: are they fair to each other?",
        {"a": BBR, "b": {"cc": "bbr3"}},
        rate="50mbit",
    ),
    preset(
        "Short queue, long path",
        "Half a BDP of buffer and 100 ms: who can live with little room?",
        {"a": CUBIC, "b": BBR},
        rate="50mbit",
        rtt="100ms",
        buffer="0.5bdp",
    ),
    preset(
        "Late to the party",
        "BBR starts three seconds after CUBIC has filled the queue.",
        {"a": CUBIC, "b": {"cc": "bbr", "start": "3s", "duration": "7s"}},
    ),
    preset(
        "Near and far",
        "Two CUBIC flows, 10 and 100 ms away: does the near one take all?",
        {"near": {"cc": "cubic", "rtt": "10ms"}, "far": {"cc": "cubic", "rtt": "100ms"}},
    ),
    preset(
        "Four streams against one",
        "A download manager opens four connections beside your one.",
        {"one": CUBIC, "four": {"cc": "cubic", "streams": "4"}},
    ),
    preset(
        "The rate halves",
        "After five seconds the link has half its rate: who notices first?",
        {"a": CUBIC, "b": BBR},
        changes="[{at: 5s, rate: 10mbit}]",
    ),
    preset(
        "Loss that is no congestion",
        "1 % of the packets vanish whatever the senders do: CUBIC against BBR.",
        {"a": CUBIC, "b": BBR},
        loss="1%",
    ),
    preset(
        "Reno, as in the textbook",
        "One BDP of buffer, additive increase, multiplicative decrease: the sawtooth.",
        {"a": RENO},
        rate="10mbit",
        buffer="1bdp",
        duration="30s",
    ),
    preset(
        "A server short of memory",
        "4 MiB for all TCP sockets: is it the path that limits, or the machine?",
        {"a": CUBIC},
        rate="50mbit",
        rtt="100ms",
        buffer="8bdp",
        tcp_memory="4MiB",
    ),
)


def declarations() -> dict[str, object]:
    """Return all that the page's controls are made of."""
    controls = [name for name in CC_COLOURS if name in known_controls()]
    controls += [name for name in known_controls() if name not in controls]
    settings = {name: field for name, field in SETTINGS.items() if name not in REFUSED_SETTINGS}
    return {
        "sliders": list(SLIDERS),
        "settings": [field_json(name, field) for name, field in settings.items()],
        "with_controls": list(WITH_CONTROLS),
        "directions": list(DIRECTIONS),
        "path_fields": list(PATH_FIELDS),
        "queues": values_of(SETTINGS["queue"]),
        "ecn": values_of(SETTINGS["ecn"]),
        "kinds": [
            {"name": name, "label": "TCP" if name == "tcp" else KIND_LABELS.get(name, name)}
            for name in values_of(FLOW_FIELDS["kind"])
            if name not in REFUSED_KINDS
        ],
        "flow_fields": [
            field_json(name, field)
            for name, field in FLOW_FIELDS.items()
            if name not in REFUSED_FLOW_FIELDS
        ],
        "controls": [
            {"name": name, "label": cc_label(name), "colour": cc_colour(name)} for name in controls
        ],
        "tunnels": [
            {"name": name, "legs": [] if declaration.is_direct else list(declaration.legs)}
            for name, declaration in tunnel_kinds().items()
        ],
        "kernels": [SHIPPED, *declared_kernels(), *own_kernels()],
        "presets": [*PRESETS, *profile_presets()],
    }


def field_json(name: str, field: KeySchema) -> dict[str, object]:
    return {
        "name": name,
        "says": field.says,
        "unit": field.unit,
        "values": values_of(field),
        "default": field.default if isinstance(field.default, str) else None,
        "example": field.example,
    }


def profile_presets() -> list[dict[str, object]]:
    """Return a preset for each path in netem_profiles/, without rates, which are the profile's."""
    presets = []
    for name in list_profiles():
        profile = load_profile(name)
        is_fast = (
            max(direction.rate_bps or 0 for direction in (profile.forward, profile.reverse))
            > FAST_BPS
        )
        slowed = {"rate": FAST_RATE} if is_fast else {}
        slowed_text = f"; here at {FAST_RATE}" if is_fast else ""
        presets.append(
            {
                "title": name,
                "text": profile.title + slowed_text,
                "settings": {**PLAIN, "profile": name, **slowed},
                "flows": {"a": CUBIC, "b": BBR},
                "is_profile": True,
            }
        )
    return presets
