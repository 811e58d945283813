"""The page of studies: what each study asked and did, what the lab did, its figures, and where the
two agree or not.

    docs/studies.md · docs/studies/*.png

Markdown that a forge shows as it is. All of it is made from result folders and experiment files,
and can be made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from analysis.draw.registry import Answer, Picture
from analysis.draw.style import save
from analysis.judge import targets
from analysis.judge.table import NBSP, markdown
from analysis.page import tables
from analysis.page.chapter import Chapter, to_chapter
from analysis.read.description import question, read_asked
from analysis.read.folder import Run
from analysis.read.runs import load_results
from analysis.read.study import Study, load_study, questions

COMMAND = "./lab report --studies"
# A list of runs longer than this is for the report.
MOST_LISTED = 20


def write_studies_page(
    results: Path, names: Sequence[str], out_md: Path, *, keep: bool = False
) -> Path:
    """Write the page of some experiments and its pictures (in a folder of the page's name); the
    page. Raises OSError and DrawingError.

    keep: the other studies' sections of the page that is there stay as they are

    Only runs of an experiment's full form count here, as its file stands now; of a matrix of which
    less than half has been run, those of its quick form, and the page says so. What one's own
    --set left in the results is another question. The pictures that the last page showed and this
    one does not are deleted, and no other file.
    """
    forms = {name: form_of(results / name, name) for name in names}
    return write_page(
        results,
        [load_study(name) for name in names],
        out_md,
        {name: form.asking for name, form in forms.items()},
        {name: form.quick for name, form in forms.items()},
        kept_of(out_md, names) if keep else {},
    )


@dataclass(frozen=True)
class Kept:
    """A study's part of a page that was made earlier."""

    row: str  # of the table that sums all up
    lines: tuple[str, ...]


def kept_of(page: Path, but: Collection[str]) -> dict[str, Kept]:
    """The studies of a page, but for some, by name; none if something else wrote it."""
    try:
        words = page.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return {}
    if COMMAND not in words[:400]:
        return {}
    head, *rest = re.split(r'(?m)^<a id="study-([A-Za-z0-9-]+)"></a>\n', words)
    rows = {
        found[1]: found[0]
        for found in re.finditer(r"(?m)^\| \[.*?\]\(#study-([A-Za-z0-9-]+)\) \|.*$", head)
    }
    return {
        name: Kept(rows[name], tuple(text.rstrip("\n").splitlines()))
        for name, text in zip(rest[::2], rest[1::2], strict=True)
        if name in rows and name not in but
    }


@dataclass(frozen=True)
class Form:
    """Which of an experiment's runs the page is made of."""

    asking: frozenset[str] | None  # what they ask; None: anything, as there is no file
    quick: tuple[str, ...] = ()  # the matrices whose runs are their quick form's


def form_of(folder: Path, name: str) -> Form:
    """Of every matrix its full form, or its quick form where that has been run and less than half
    of the other; a matrix that only the quick form has, where that holds of the whole. folder: the
    experiment's results.
    """
    full, quick = questions(name), questions(name, quick=True)
    if full is None or quick is None:
        return Form(None)
    paths = folder.iterdir() if folder.is_dir() else ()
    answered = {question(read_asked(path)) for path in paths if path.is_dir()}
    asking: set[str] = set()
    short = []
    for matrix in sorted({matrix_of(each) for each in full | quick}):
        both = [{each for each in form if matrix_of(each) == matrix} for form in (full, quick)]
        long = both[0] or full
        # Either machine's answer is one: half of the questions are all.
        is_short = both[1] & answered and 4 * len(long & answered) < len(long)
        asking |= both[1] if is_short else both[0]
        if is_short:
            short.append(matrix)
    return Form(frozenset(asking), tuple(short))


def matrix_of(question: str) -> str:
    """The matrix whose runs ask a question."""
    return str(json.loads(question)["matrix"])


def write_page(
    results: Path,
    studies: Sequence[Study],
    out_md: Path,
    asking: Mapping[str, Collection[str] | None] = MappingProxyType({}),
    quick: Mapping[str, Sequence[str]] = MappingProxyType({}),
    kept: Mapping[str, Kept] = MappingProxyType({}),
) -> Path:
    """The same, of experiments already read; of each, the runs that ask one of these questions, or
    all.

    quick: of each, the matrices whose runs are their quick form's
    kept: other studies' parts, which stay
    """
    chapters = [
        to_chapter(study, load_results(results, study.name, asking.get(study.name)))
        for study in studies
    ]
    folder = out_md.with_suffix("")
    old = own_pictures(out_md)
    written = {
        name for each in kept.values() for name in pictures_in("\n".join(each.lines), folder.name)
    }
    for chapter in chapters:
        for picture in chapter.pictures:
            name = f"{picture.name}.png"
            written.add(name)
            write_whole(folder / name, save(picture.figure, "png"))
    write_whole(out_md, page_of(chapters, folder.name, quick, kept).encode("utf-8", "replace"))
    for name in sorted(old - written):
        (folder / name).unlink(missing_ok=True)
    return out_md


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)


def own_pictures(page: Path) -> set[str]:
    """The names of the pictures that a page written earlier shows; none if something else wrote
    it.
    """
    try:
        words = page.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return set()
    if COMMAND not in words[:400]:
        return set()
    return pictures_in(words, page.stem)


def pictures_in(words: str, folder: str) -> set[str]:
    """The names of the pictures of a folder that some Markdown shows."""
    return set(re.findall(rf"\]\({re.escape(folder)}/([A-Za-z0-9._+-]+\.png)\)", words))


# -- the page


def page_of(
    chapters: Sequence[Chapter],
    folder: str,
    quick: Mapping[str, Sequence[str]] = MappingProxyType({}),
    kept: Mapping[str, Kept] = MappingProxyType({}),
) -> str:
    """The page's Markdown. quick: by experiment, the matrices whose runs are their quick form's;
    kept: what stays of an earlier page. By name, if something stays.
    """
    lines = [
        "# Studies, repeated",
        "",
        f"<!-- Generated by `{COMMAND}` from results/ and experiments/: do not edit. -->",
        "",
        (
            f"This page is made by `{COMMAND}`. Every study below is an experiment in"
            " `experiments/`; every number of the lab's is the median of its valid runs."
        ),
        "",
    ]
    if not chapters and not kept:
        return "\n".join([*lines, "There are no results yet.", ""])
    parts: dict[str, Chapter | Kept] = {each.study.name: each for each in chapters}
    parts.update(kept)
    names = sorted(parts) if kept else list(parts)
    lines += [*overview([parts[name] for name in names], quick), ""]
    for name in names:
        part = parts[name]
        if isinstance(part, Kept):
            lines += [f'<a id="study-{name}"></a>', *part.lines, ""]
        else:
            lines += [*section(part, folder, quick.get(name, ())), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def overview(parts: Sequence[Chapter | Kept], quick: Mapping[str, Sequence[str]]) -> list[str]:
    """A line per study: how much has run, how much agrees."""
    lines = [
        "| Study | Runs that count | Published figures | agree | disagree | not answered |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for chapter in parts:
        if isinstance(chapter, Kept):
            lines.append(chapter.row)
            continue
        counts = [
            sum(row.verdict == verdict for row in chapter.targets)
            for verdict in (targets.AGREES, targets.DISAGREES)
        ]
        rest = len(chapter.targets) - sum(counts)
        lines.append(
            f"| [{markdown(chapter.study.title)}](#{anchor(chapter)}) | {chapter.counted}"
            f"{', quick form' if quick.get(chapter.study.name) else ''} |"
            f" {len(chapter.targets)} | {counts[0]} | {counts[1]} | {rest} |"
        )
    return lines


def anchor(chapter: Chapter) -> str:
    """The section's own anchor: a forge's for its heading would depend on the forge."""
    return "study-" + re.sub(r"[^A-Za-z0-9-]+", "-", chapter.study.name)


def section(chapter: Chapter, folder: str, quick: Sequence[str] = ()) -> list[str]:
    """One study. quick: the matrices whose runs are their quick form's."""
    study = chapter.study
    lines = [f'<a id="{anchor(chapter)}"></a>', "", f"## {markdown(study.title)}", ""]
    if study.question:
        lines += [f"> {markdown(study.question)}", ""]
    if quick:
        lines += [f"*{markdown(quick_words(chapter, quick))}*", ""]
    for sentence in chapter.first.sentences:
        lines += [markdown(sentence), ""]
    if chapter.first.picture is not None:
        lines += picture_lines(chapter.first.picture, folder)
    if chapter.first.trust:
        lines += [f"**How far to trust it.** {markdown(chapter.first.trust)}", ""]
    source = ", ".join(
        each
        for each in (study.seed, f"sections {study.sections}" if study.sections else "")
        if each
    )
    lines += [
        "**The study"
        + (f"** ({markdown(source)})." if source else ".**")
        + f" {markdown(study.note)}".rstrip(),
        "",
    ]
    done = [f"**The lab.** {markdown(lab_words(chapter))}", ""]
    if not chapter.counted:
        lines += done
    if chapter.against is not None:
        lines += picture_lines(chapter.against, folder)
    if chapter.reasons is not None:
        lines += [chapter.reasons.to_markdown(), ""]
    # How much of it counts is said above; the rest of how it was done is for who asks.
    rest = [
        *(done if chapter.counted else []),
        *set_aside(chapter),
        *details(chapter, folder),
    ]
    if rest:
        lines += [
            f"<details><summary>{summary_of(chapter)}</summary>",
            "",
            *rest,
            "</details>",
        ]
    return lines


def quick_words(chapter: Chapter, quick: Sequence[str]) -> str:
    """Which of a study's matrices were run in their quick form alone."""
    others = {matrix for matrix, _ in chapter.study.matrix_titles} - set(quick)
    of = f"Of {', '.join(quick)}" if others else "Of this study"
    return (
        f"{of} the quick form: shorter runs, fewer levels, mostly one run per cell. Less than half"
        " of the full form has been run."
    )


def picture_lines(picture: Picture, folder: str) -> list[str]:
    """A picture and its caption."""
    return [
        f"![{markdown(picture.caption.split('. ')[0])}]({folder}/{picture.name}.png)",
        "",
        f"*{markdown(picture.caption)}*",
        "",
    ]


def summary_of(chapter: Chapter) -> str:
    """What is folded away."""
    matrices = len(chapter.parts)
    pictures = sum(len(part.pictures) for part in chapter.parts)
    said = [
        f"{matrices} matri{'x' if matrices == 1 else 'ces'}" if matrices else "",
        f"{pictures} figure{'' if pictures == 1 else 's'}" if pictures else "",
        "every published number" if chapter.target_table is not None else "",
    ]
    return ", ".join(filter(None, said)) or "nothing"


def details(chapter: Chapter, folder: str) -> list[str]:
    """Matrix by matrix: what its numbers say, its figures; then the study's numbers one by one."""
    lines = []
    for part in chapter.parts:
        lines += [f"### {markdown(part.title)}", ""]
        for each in part.said:
            lines += [markdown(each.sentence), ""]
        if part.note:
            lines += [markdown(part.note), ""]
        for picture in part.pictures:
            if picture is not chapter.first.picture:
                lines += picture_lines(picture, folder)
        for answer in part.answers:
            lines += said_lines(answer)
    for answer in chapter.answers:
        lines += said_lines(answer)
    if chapter.target_table is not None:
        # The reasons stand above it, each once.
        table = replace(
            chapter.target_table,
            columns=tuple(each for each in chapter.target_table.columns if each.key != "why"),
        )
        lines += [table.to_markdown(), ""]
    return [*lines, *set_aside_list(chapter), ""]


def said_lines(answer: Answer) -> list[str]:
    """An answer with its heading."""
    return [
        f"**{markdown(answer.heading)}**",
        "",
        *(f"- {markdown(said)}" for said in answer.sentences),
        "",
    ]


def lab_words(chapter: Chapter) -> str:
    """What the lab did: where, on which clock and paths, how often, how long."""
    counted = [run for run in chapter.results.runs if run.counts]
    if not counted:
        return "No run counts yet."
    made = [run.environment for run in counted if run.environment is not None]
    machines = (
        " and ".join(sorted({f"{each.machine}, {each.clock} clock" for each in made}))
        or "unknown machine"
    )
    profiles = sorted({run.profile for run in counted})
    named = ", ".join(profiles[:6]) + (
        f" and {len(profiles) - 6} more" if len(profiles) > 6 else ""
    )
    sizes = sorted(len(runs) for runs in cells_of(counted).values())
    per_cell = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    wall = [run.wall_s for run in counted if run.wall_s is not None]
    took = f", {duration(sum(wall))} of work on the machine" if wall else ""
    return (
        f"{machines}; {'profile' if len(profiles) == 1 else 'profiles'} {named}; {len(counted)}"
        f" runs, n = {per_cell} per cell; {duration(sum(run.load_s for run in counted))} of"
        f" load{took}."
    )


def cells_of(runs: Sequence[Run]) -> dict[object, list[Run]]:
    """Runs by what they have in common."""
    found: dict[object, list[Run]] = {}
    for run in runs:
        found.setdefault((run.matrix, run.factors, run.settings), []).append(run)
    return found


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f}{NBSP}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}{NBSP}min"
    return f"{seconds / 3600:.1f}{NBSP}h"


def set_aside(chapter: Chapter) -> list[str]:
    """How many runs are degraded or do not count; nothing where all are well."""
    degraded = [run for run in chapter.results.runs if run.counts and run.verdict == "degraded"]
    out = [run for run in chapter.results.runs if not run.counts]
    left_out = len(out) + len(chapter.results.broken)
    if not degraded and not left_out:
        return []
    return [
        f"**Runs set apart.** Of {len(chapter.results.runs) + len(chapter.results.broken)} run"
        f" folders, {len(degraded)} {'is' if len(degraded) == 1 else 'are'} degraded (counted, and"
        f" marked in the figures) and {left_out} {'is' if left_out == 1 else 'are'} in no figure,"
        " table or sentence.",
        "",
    ]


def set_aside_list(chapter: Chapter) -> list[str]:
    """Which runs are degraded or do not count, and why."""
    runs = chapter.results.runs
    degraded = [run for run in runs if run.counts and run.verdict == "degraded"]
    listed = [(run.name, "degraded", tables.why(run)) for run in degraded]
    listed += [(run.name, tables.state_of(run), tables.why(run)) for run in runs if not run.counts]
    listed += [(each.name, "unreadable", each.error) for each in chapter.results.broken]
    lines = [
        f"- `{name.replace('`', '')}`: {state}" + (f": {markdown(why)}" if why else "")
        for name, state, why in listed[:MOST_LISTED]
    ]
    if len(listed) > MOST_LISTED:
        lines.append(
            f"- and {len(listed) - MOST_LISTED} more: `./lab report {chapter.study.name}` lists"
            " all."
        )
    return lines
