// SPDX-License-Identifier: MIT
// Panels below each other on one time axis, drawn by uPlot while samples arrive. The axes of the
// values only grow during a run, so that the picture stays still.

import { alpha, coloursOf, inkOf } from "./colours.js";
import { $, css, el, median, NB, num, prefersStill } from "./dom.js";

const SMOOTH_S = 0.3; // over which a goodput is averaged
const STATES = ["ProbeRTT", "Drain", "Down", "Cruise", "Up", "Startup"];
const STATES_PX = 80; // the least height that holds the labels of all states
const STATE_LABELS = ["RTT", "drain", "down", "cruise", "up", "start"];
const PANELS = [ // field, title, unit, height, the reference line: its value and its name
  { key: "mbit", title: "Goodput", unit: "Mbit/s, mean of 0.3 s", tall: 1.35,
    reference: a => [a.rate_mbit, "link " + num(a.rate_mbit)] },
  { key: "srtt_ms", title: "Round trip", unit: "ms", tall: 1,
    reference: a => [a.rtt_ms, "idle " + num(a.rtt_ms)] },
  { key: "queue", title: "Waiting in the queue", unit: "ms", tall: 1,
    reference: a => [a.full_ms, "full " + num(a.full_ms && +a.full_ms.toPrecision(2))] },
  { key: "cwnd_pkts", title: "Congestion window", unit: "packets; thin: unacknowledged", tall: 1,
    reference: a => [a.bdp_pkts, "BDP " + num(a.bdp_pkts && Math.round(a.bdp_pkts))] },
  { key: "bbr", title: "BBR’s state", unit: "by its pacing gain", tall: 0.75,
    reference: () => [null, ""] },
];

// The curves of a run: `accepted`, and per repetition each flow's values by sampling instant.
export class Curves {
  constructor(accepted) {
    this.accepted = accepted;
    this.count = Math.round(accepted.length_s * 1000 / accepted.sample_ms);
    this.step = accepted.sample_ms / 1000;
    this.t = Array.from({ length: this.count }, (_, i) => +((i + 1) * this.step).toFixed(4));
    this.reps = new Map();
    this.seenS = 0;
    this.complete = false;
    this.rows = 0;
  }

  take(samples) {
    const blank = () => new Array(this.count).fill(null);
    if (!this.reps.has(samples.rep)) this.reps.set(samples.rep, { flows: {}, queue: {} });
    const rep = this.reps.get(samples.rep);
    for (const [name, points] of Object.entries(samples.flows)) {
      const flow = rep.flows[name] ||= {};
      for (const [key, values] of Object.entries(points)) {
        if (key === "at") continue;
        const curve = flow[key] ||= blank();
        points.at.forEach((at, i) => { if (at >= 1 && at <= this.count) curve[at - 1] = values[i];
          });
      }
    }
    for (const [key, values] of Object.entries(samples.queue)) {
      if (key === "at") continue;
      const curve = rep.queue[key] ||= blank();
      samples.queue.at.forEach((at, i) => { if (at >= 1
        && at <= this.count) curve[at - 1] = values[i]; });
    }
    this.seenS = samples.t_s;
    this.rows++;
  }

  // One repetition's curve of a panel, by flow; of the queue there is one.
  raw(rep, key) {
    if (key === "queue") return [rep.queue.delay_ms || null];
    return this.accepted.flows.map(flow => rep.flows[flow.name]?.[key] || null);
  }

  // The curves to draw: the median over repetitions.
  drawn(key) {
    const reps = [...this.reps.values()];
    const curves = reps.map(rep => this.raw(rep, key));
    if (!curves.length) return [];
    const merged = curves[0].map((first, i) => curves.length === 1 || key === "bbr" ? first
      : this.over(curves.map(c => c[i]), median));
    return key === "mbit" ? merged.map(c => this.smooth(c)) : merged;
  }

  // The lowest and highest curve of a flow over all repetitions.
  band(key, index) {
    const curves = [...this.reps.values()].map(rep => this.raw(rep, key)[index]).filter(Boolean)
      .map(c => key === "mbit" ? this.smooth(c) : c);
    return [Math.max, Math.min].map(end => this.over(curves, xs => {
      const known = xs.filter(x => x != null);
      return known.length ? end(...known) : null;
    }));
  }

  over(curves, merge) {
    const known = curves.filter(Boolean);
    return known.length ? this.t.map((_, i) => merge(known.map(c => c[i]))) : null;
  }

  smooth(curve) {
    if (!curve) return null;
    const half = Math.max(0, Math.round((SMOOTH_S / this.step - 1) / 2));
    return curve.map((x, i) => {
      if (x == null) return null;
      let sum = 0, n = 0;
      for (let j = Math.max(0, i - half); j <= Math.min(curve.length - 1, i + half); j++) {
        if (curve[j] != null) { sum += curve[j]; n++; }
      }
      return sum / n;
    });
  }

  total(key) {
    return median([...this.reps.values()].map(rep =>
      (rep.queue[key] || []).reduce((sum, x) => sum + (x || 0), 0)));
  }

  get hasBbr() { return this.accepted.flows.some(flow => /^bbr/.test(flow.cc || "")); }

  // The same curve at another run's instants.
  at(curve, other) {
    if (!curve || (other.count === this.count && other.step === this.step)) return curve;
    return other.t.map(t => curve[Math.round(t / this.step) - 1] ?? null);
  }
}

const nice = x => {
  const power = 10 ** Math.floor(Math.log10(x || 1)), m = x / power;
  return power * [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find(s => s >= m - 1e-9);
};

function ticks(top, most) {
  let power = 10 ** Math.floor(Math.log10(top) - 2), step;
  for (;; power *= 10) {
    step = [1, 2, 5].map(m => m * power).find(s => top / s <= most + 1e-9);
    if (step) break;
  }
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_,
    i) => +(i * step).toPrecision(6));
}

let panels = [], shown = null, timeLabel = null;
export const current = () => panels;

function heights(used) {
  const phone = innerWidth <= 760;
  const room = phone ? 560 : Math.max(430, Math.min(innerHeight - (innerWidth >= 1600 ? 320 : 300),
    900));
  const captions = used.length > 4 && !phone ? 34 : 0; // of the fifth panel
  const free = room - captions - 24, sum = used.reduce((total, panel) => total + panel.tall, 0);
  const states = used.find(panel => panel.key === "bbr"), statesTall = states?.tall || 0;
  const statesPx = states ? Math.max(STATES_PX, free * statesTall / sum) : 0;
  return used.map((panel, i) => Math.round(panel === states ? statesPx
    : (free - statesPx) * panel.tall / (sum - statesTall)) + (i === used.length - 1 ? 24 : 0));
}

// Make the panels of a run; ghost and pin are Curves, or null.
export function build(run, ghost, pin) {
  for (const panel of panels) panel.u.destroy();
  $("charts").querySelectorAll("figure").forEach(figure => figure.remove());
  shown = { run, ghost, pin };
  const used = PANELS.filter(panel => panel.key !== "bbr" || run.hasBbr);
  const tall = heights(used), width = $("charts").clientWidth;
  panels = used.map((panel, i) => makePanel(panel, i, used.length, tall[i], width));
  timeLabel = el("div", { className: "time hide" });
  panels[panels.length - 1].plot.append(timeLabel);
  feed();
}

function makePanel(panel, index, count, height, width) {
  const { run, ghost, pin } = shown, last = index === count - 1, isState = panel.key === "bbr";
  const colours = coloursOf(run.accepted.flows), isQueue = panel.key === "queue";
  const series = [{}], bands = [], sources = [], curves = [];
  const add = (values, style) => {
    series.push({ points: { show: false }, spanGaps: true, ...style });
    sources.push(values);
    return sources.length;
  };
  const stepped = isState ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
  const old = pin ? null : ghost;
  if (old && !isState) old.drawn(panel.key).forEach((_,
    i) => add(() => old.at(old.drawn(panel.key)[i], run),
    { stroke: css("--ghost"), width: run.accepted.flows.length > 2 ? 0.75 : 1.25 }));
  if (pin && !isState) {
    const of = coloursOf(pin.accepted.flows);
    pin.drawn(panel.key).forEach((_, i) => add(() => pin.at(pin.drawn(panel.key)[i], run),
      { stroke: isQueue ? css("--soft") : of[i], width: 1.25, dash: [2, 3] }));
  }
  if (run.accepted.repetitions > 1 && !isState) {
    (isQueue ? [0] : run.accepted.flows).forEach((_, i) => {
      const high = add(() => run.band(panel.key, i)[0], { stroke: "transparent", width: 0 });
      const low = add(() => run.band(panel.key, i)[1], { stroke: "transparent", width: 0 });
      bands.push({ series: [high, low], fill: alpha(isQueue ? css("--quiet") : colours[i],
        +css("--band")) });
    });
  }
  if (panel.key === "cwnd_pkts") run.accepted.flows.forEach((_, i) =>
    add(() => run.drawn("unacked_pkts")[i], { stroke: alpha(colours[i], 0.55), width: 1 }));
  (isQueue ? [null] : run.accepted.flows).forEach((flow, i) => {
    const colour = isQueue ? css("--ink") : colours[i];
    const values = isState
      ? () => (run.drawn("bbr")[i] || []).map(x => x == null ? null : STATES.indexOf(x))
      : () => run.drawn(panel.key)[i];
    add(values, { stroke: colour, width: isQueue ? 1.5 : isState ? 1.25 : 1.75, ...stepped });
    curves.push({ at: sources.length, name: isQueue ? "queue" : flow.label,
      ink: isQueue ? css("--ink") : inkOf(colour) });
  });
  const figure = el("figure"), plot = el("div", { className: "plot" });
  const ends = el("div", { className: "ends" }), unit = el("span");
  figure.append(el("figcaption", {}, el("b", { textContent: panel.title }), " ", unit), plot);
  $("charts").append(figure);
  const own = { panel, plot, ends, unit, height, curves, sources, top: 0, data: [],
    reference: panel.reference(run.accepted), isQueue, isState };
  const font = "11px " + css("--sans");
  own.u = new uPlot({
    width, height, padding: [6, parseInt(css("--gutter")), 0, 0], legend: { show: false }, ms: 1,
    cursor: { y: false, sync: { key: "t" }, points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { time: false, range: [0, run.accepted.length_s] },
      y: { range: () => isState ? [-0.6, STATES.length - 0.4] : [0, own.top || 1] } },
    axes: [
      { size: last ? 24 : 7, gap: 4, stroke: css("--soft"), font, grid: { show: false },
        ticks: { show: last, stroke: css("--edge"), width: 1, size: 4 },
        splits: () => ticks(run.accepted.length_s, 6),
        values: (u, values) => values.map((x, i) => !last ? "" : i === values.length - 1 ? x + " s"
          : x) },
      { size: parseInt(css("--yaxis")), gap: 6, stroke: css("--soft"), font, space: 10,
        grid: { stroke: css("--grid"), width: 1 }, ticks: { show: false },
        splits: () => isState ? STATES.map((_, i) => i)
          : ticks(own.top || 1, height < 90 ? 3 : height < 200 ? 4 : 5),
        values: (u, values) => isState ? STATE_LABELS : values.map(num) },
    ],
    series, bands,
    hooks: { drawClear: [drawBase], draw: [u => drawMarks(u, own)], setCursor: [() => label(own)] },
  }, [run.t, ...sources.map(() => new Array(run.count).fill(null))], plot);
  plot.append(ends);
  return own;
}

function drawBase(u) {
  const c = u.ctx, x = u.bbox.left, y = u.bbox.top + u.bbox.height;
  c.save();
  c.strokeStyle = css("--edge");
  c.lineWidth = devicePixelRatio;
  c.beginPath();
  c.moveTo(x, y);
  c.lineTo(x + u.bbox.width, y);
  c.stroke();
  c.restore();
}

function drawMarks(u, own) {
  const c = u.ctx, d = devicePixelRatio, run = shown.run;
  const line = (x0, y0, x1, y1) => { c.moveTo(x0, y0); c.lineTo(x1, y1); };
  c.save();
  const steps = own.panel.key === "mbit" ? run.accepted.rate_steps : [];
  if (own.reference[0] != null && own.reference[0] <= own.top) {
    c.strokeStyle = css("--ref");
    c.lineWidth = d;
    c.setLineDash([4 * d, 4 * d]);
    c.beginPath();
    const values = steps.length > 1 ? steps : [[0, own.reference[0]]];
    values.forEach(([from, value], i) => {
      const until = values[i + 1]?.[0] ?? run.accepted.length_s;
      const y = Math.round(u.valToPos(Math.min(value, own.top), "y", true));
      line(u.valToPos(from, "x", true), y, u.valToPos(Math.min(until, run.accepted.length_s), "x",
        true), y);
    });
    c.stroke();
  }
  if (own.isQueue && run.accepted.repetitions === 1) {
    c.setLineDash([]);
    const queue = [...run.reps.values()][0]?.queue || {};
    for (const [key, colour, tall] of [["drops", css("--ink"), 6], ["marks", css("--degraded"),
      4]]) {
      c.strokeStyle = colour;
      c.lineWidth = 1.5 * d;
      c.beginPath();
      (queue[key] || []).forEach((n, i) => {
        const x = n ? u.valToPos(run.t[i] - run.step / 2, "x", true) : 0;
        if (n) line(x, u.bbox.top, x, u.bbox.top + tall * d);
      });
      c.stroke();
    }
  }
  c.restore();
}

// The upper end of a panel's axis: it holds all that is drawn, and never shrinks during a run.
function topOf(own, data) {
  const { run, ghost, pin } = shown, reference = own.reference[0];
  let top = 0;
  for (const values of data) for (const x of values) if (x != null && x > top) top = x;
  if (own.panel.key === "mbit") {
    const rates = [run, ghost, pin].map(r => Math.max(...(r?.accepted.rate_steps || [[0,
      0]]).map(s => s[1])));
    if (Math.max(...rates) > 0) top = Math.min(top, 1.15 * Math.max(...rates));
    if (rates[0] > 0) top = Math.max(top, rates[0]);
  }
  if (own.isQueue) {
    if (reference != null) top = Math.max(top, reference < 3 * top ? reference : reference / 4);
  } else if (reference != null) top = Math.max(top, reference);
  return nice(Math.max(top, 1e-3) * 1.04);
}

let frame = 0;
export function feedSoon() { // samples arrive more often than pictures are shown
  if (prefersStill() || frame) return;
  frame = requestAnimationFrame(() => { frame = 0; feed(); });
}

export function feed() {
  if (!shown) return;
  for (const own of panels) {
    const data = own.sources.map(source => source() || new Array(shown.run.count).fill(null));
    own.data = data;
    if (!own.isState) own.top = Math.max(own.top, topOf(own, data));
    own.u.setData([shown.run.t, ...data], true);
    label(own);
    own.unit.textContent = unitText(own);
  }
}

function unitText(own) {
  const { run } = shown, many = run.accepted.repetitions;
  if (own.panel.key === "mbit" && many > 1) return `Mbit/s; median and span of ${many} runs`;
  if (!own.isQueue || !run.complete) return own.panel.unit;
  const drops = run.total("drops"), marks = run.total("marks"), full = own.reference[0];
  let text = "ms";
  if (drops) text += many > 1 ? `; ${num(drops)} packets dropped`
    : `; ticks: ${num(drops)} dropped`;
  if (marks) text += `, ${num(marks)} marked`;
  if (full > own.top) text += `; full at ${num(+full.toPrecision(2))} ms`;
  return text;
}

function label(own) {
  if (!shown || !own.u || !own.data.length) return;
  const { run } = shown, u = own.u, phone = innerWidth <= 760;
  const index = u.cursor.idx, over = u.cursor.left >= 0 && index != null;
  const items = own.curves.map(curve => {
    const values = own.data[curve.at - 1], value = over ? values[index] : null;
    const at = median(values.filter(x => x != null).slice(-10));
    if (at == null || (over && value == null)) return null;
    const shownValue = own.isState ? STATE_LABELS[value] : num(value);
    return { y: u.valToPos(Math.min(at, own.isState ? at : own.top), "y"), ink: curve.ink,
      text: over ? (phone ? "" : curve.name + NB) : curve.name, value: over ? shownValue : "" };
  }).filter(Boolean);
  if (own.reference[0] != null && own.reference[0] <= own.top) {
    items.push({ y: u.valToPos(own.reference[0], "y"), text: own.reference[1], isReference: true });
  }
  items.sort((a, b) => a.y - b.y);
  const gap = phone ? 12 : 14;
  for (let n = 0; n < 12; n++) for (let i = 1; i < items.length; i++) {
    const lacking = gap - (items[i].y - items[i - 1].y);
    if (lacking > 0) { items[i].y += lacking / 2; items[i - 1].y -= lacking / 2; }
  }
  for (let i = items.length - 1; i >= 0; i--) {
    items[i].y = Math.min(items[i].y, i === items.length - 1 ? u.over.clientHeight : items[i
      + 1].y - gap);
  }
  own.labels = items;
  own.ends.replaceChildren(...items.map(item => {
    const span = el("span", { className: item.isReference ? "ref" : "" },
      el("span", { className: "name", textContent: item.text }));
    if (item.ink) span.style.color = item.ink;
    span.style.top = item.y + u.over.offsetTop + "px";
    if (item.value) span.append(el("span", { className: "v", textContent: item.value }));
    return span;
  }));
  if (own === panels[panels.length - 1] && timeLabel) {
    timeLabel.classList.toggle("hide", !over);
    if (over) {
      timeLabel.textContent = num(run.t[index]) + " s";
      timeLabel.style.left = u.over.offsetLeft + u.valToPos(run.t[index], "x") + "px";
    }
  }
}

// Move the cursor by some instants, and return what stands there in words.
export function read(by) {
  if (!shown || !panels.length) return "";
  const { run } = shown, u = panels[0].u;
  const from = u.cursor.left >= 0 && u.cursor.idx != null ? u.cursor.idx
    : Math.floor(run.count / 2);
  const index = Math.max(0, Math.min(run.count - 1, from + by));
  for (const own of panels) own.u.setCursor({ left: own.u.valToPos(run.t[index], "x"), top: 10 });
  const values = (own,
    unit) => own.curves.map(c => `${c.name} ${num(own.data[c.at - 1][index])}`).join(", ") + unit;
  return `${num(run.t[index])} s: ${values(panels[0], " Mbit/s")}; ${values(panels[1], " ms")}`;
}

export function leave() {
  for (const own of panels) own.u.setCursor({ left: -10, top: -10 });
}

export function redraw() {
  if (shown) build(shown.run, shown.ghost, shown.pin);
}
