// SPDX-License-Identifier: MIT
// What a run says: the sentence, the line below it, the tables.

import { coloursOf } from "./colours.js";
import { $, css, el, NB, num, percent } from "./dom.js";
import { question } from "./state.js";

// A finished run: its curves, its answer, and the question as it was.
export class Finished {
  constructor(curves, answer) {
    this.curves = curves;
    this.accepted = curves.accepted;
    this.answer = answer;
    this.settings = { ...question.settings };
    this.flows = structuredClone(question.flows);
    this.seed = question.seed;
  }

  get path() {
    const a = this.accepted, s = this.settings, bdp = a.limit_pkts / a.bdp_pkts;
    return [
      a.rate_mbit == null ? "" : `${num(a.rate_mbit)}${NB}Mbit/s`,
      `${num(a.rtt_ms)}${NB}ms`,
      s.loss && !/^0*(\.0+)?%$/.test(s.loss) ? `${s.loss.replace("%", NB + "%")} loss` : "",
      Number.isFinite(bdp)
        ? `${s.buffer ? s.buffer.replace("bdp", NB + "BDP") : num(bdp) + NB + "BDP"}` : "",
      s.queue && s.queue !== "fifo" ? s.queue : "",
      s.ecn && s.ecn !== "off" ? "ECN" : "",
      s.tunnel && s.tunnel !== "direct" ? s.tunnel : "",
    ].filter(Boolean).join(" · ");
  }
}

// What an older question had otherwise, in a few words.
export function differences(old, now) {
  const words = [], a = old.settings, b = now.settings;
  const label = { rate: x => x.replace(/mbit$/, NB + "Mbit/s"), rtt: x => x.replace(/ms$/, NB
    + "ms"),
    loss: x => x.replace("%", NB + "% loss"), buffer: x => x.replace("bdp", NB + "BDP"),
    tunnel: x => x, queue: x => x };
  const usual = { queue: "fifo", tunnel: "no tunnel", ecn: "no ECN", changes: "constant rate",
    kernel: "shipped kernel" };
  for (const name of new Set([...Object.keys(a), ...Object.keys(b)])) {
    if (a[name] === b[name]) continue;
    if (a[name] === undefined) words.push(usual[name] || `no ${name.replace(/_/g, " ")}`);
    else words.push(label[name] ? label[name](a[name]) : name === "ecn" ? "ECN"
      : name === "changes" ? "a changing rate" : `${name.replace(/_/g, " ")} ${a[name]}`);
  }
  if (JSON.stringify(old.flows) !== JSON.stringify(now.flows)) words.push(old.accepted.flows.map(
    f => f.label).join(", "));
  if (!words.length && old.seed !== now.seed) words.push(`seed ${old.seed}`);
  return words.slice(0, 3).join(" · ");
}

export function showMeta(now, ghost, pin) {
  const answer = now.answer, runs = now.accepted.repetitions, wall = answer.wall_s;
  const took =
    `${runs > 1 ? runs + " × " : ""}${num(now.accepted.length_s)} s of network in `
    + `${wall < 1 ? num(+wall.toPrecision(2)) : wall.toFixed(1)} s`;
  const id = el("span", { className: "id",
    textContent: ` · seed ${now.seed} · run ${answer.name.split("-").pop()}` });
  $("meta").replaceChildren(el("span", {}, took, id));
  const other = pin || ghost;
  if (!other || other === now) return;
  const words = differences(other, now);
  if (!words && !pin) return;
  $("meta").append(el("span", { className: "other" }, el("i", { className: pin ? "dots" : "grey" }),
    pin ? "pinned" : "before", words ? ": " + words : ""));
}

// What the small numbers beside the medians are.
function spreadOf(answer) {
  const figures = answer.flows.flatMap(flow => [flow.mbit, flow.share, flow.p95_ms]);
  const known = figures.find(figure => figure?.coverage);
  const runs = `${answer.runs} runs`;
  return known ? `median of ${runs}, ${Math.round(100 * known.coverage)}${NB}% interval`
    : `median and span of ${runs}`;
}

function table(run, title, className) {
  const colours = coloursOf(run.accepted.flows), many = run.answer.runs > 1;
  const span = figure => many && figure ? `${num(figure.low)}–${num(figure.high)}` : "";
  const cell = (text, range = "") => {
    const td = el("td", { textContent: text });
    if (range) td.append(el("span", { className: "range", textContent: range }));
    return td;
  };
  const rows = run.answer.flows.map((flow, i) => {
    const swatch = el("span", { className: "swatch" });
    swatch.style.background = colours[i];
    const resent = flow.kind === "ping" || flow.kind === "udp"
      ? (flow.lost ? `${num(flow.lost.median)} lost` : "–")
      : flow.resent
        ? `${num(flow.resent.median)} (`
          + `${num(+(100 * flow.resent_share.median).toPrecision(2))}${NB}%)` : "–";
    const row = el("tr", {}, el("td", {}, el("span", { className: "flow" }, swatch,
      el("span", { textContent: flow.label }))),
      cell(flow.mbit ? num(flow.mbit.median) : "–", span(flow.mbit)),
      cell(flow.share ? percent(flow.share.median) : "–",
        many && flow.share
          ? `${Math.round(100 * flow.share.low)}–${Math.round(100 * flow.share.high)}` : ""),
      cell(flow.p95_ms ? num(flow.p95_ms.median) + NB + "ms" : "–", span(flow.p95_ms)),
      cell(resent));
    if (!i) row.append(el("td", { className: "v-" + run.answer.verdict,
      textContent: run.answer.verdict, rowSpan: run.answer.flows.length }));
    return row;
  });
  const about = many ? ` · ${spreadOf(run.answer)}` : "";
  const heads = ["Flow", "Mbit/s", "Share", "p95 RTT", "Retrans\u00admitted", "Verdict"];
  const head = el("tr", {}, ...heads.map(text => el("th", { scope: "col", textContent: text })));
  return el("table", { className: "n " + className }, el("caption", {}, el("b", {
    textContent: title }), " " + run.path + about),
    el("thead", {}, head), el("tbody", {}, ...rows));
}

export function showTables(now, pin) {
  $("tables").replaceChildren(...[table(now, "Now", "now"), pin
    && table(pin, "Pinned", "pinned")].filter(Boolean));
}

// One line in the run's place: nothing else moves.
export function note(kind, head = "", text = "") {
  const line = $("note"), row = document.querySelector(".meta");
  line.hidden = !kind;
  line.className = "note " + kind;
  $("meta").hidden = Boolean(kind) && kind !== "degraded";
  if (kind === "degraded") row.after(line); else row.prepend(line);
  line.replaceChildren(head, text ? el("span", { textContent: " " + text }) : "");
}

export const paper = () => css("--paper");
