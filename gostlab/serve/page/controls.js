// SPDX-License-Identifier: MIT
// The rail: sliders, selects and fields. Each is made of the settings' own declarations.

import { coloursOf } from "./colours.js";
import { $, el, num } from "./dom.js";
import { makeRateCurve } from "./rate_curve.js";
import { changed, durationS, isTcp, loadPreset, question } from "./state.js";

const ZERO = 60; // of 1000: the left end of a scale whose first mark is none
const MAX_FLOWS = 4;
const SEVERAL = 6; // the fewest runs whose median has an interval of 95 %
let offered = null, ask = null, accepted = null, rateCurve = null;

const toPosition = (slider, value) => {
  const [low, high] = slider.ends, from = slider.marks[0] === 0 ? ZERO : 0;
  if (from && !value) return 0;
  return from + (1000 - from) * Math.log(value / low) / Math.log(high / low);
};

function toValue(slider, position) {
  const [low, high] = slider.ends, from = slider.marks[0] === 0 ? ZERO : 0;
  if (from && position < from / 2) return 0;
  const value = low * (high / low) ** (Math.max(0, position - from) / (1000 - from));
  return +value.toPrecision(value >= 100 ? 3 : 2);
}

// The number of a setting's text in the slider's unit, or null if it is something else.
const TO_UNIT = { bit: 1e-6, kbit: 1e-3, mbit: 1, gbit: 1e3, us: 1e-3, ms: 1, s: 1e3, "%": 1,
  bdp: 1 };
function numberOf(slider, text) {
  const match = /^\s*([\d.]+)\s*([a-z%]*)\s*$/i.exec(text ?? "");
  const factor = match && TO_UNIT[match[2].toLowerCase()];
  return factor ? +(match[1] * factor).toPrecision(6) : null;
}

const FROM_RUN = {
  rate: run => run.rate_mbit, rtt: run => run.rtt_ms, loss: run => run.loss_percent,
  buffer: run => run.limit_pkts / run.bdp_pkts,
};

export function buildControls(declared, onAsk) {
  offered = declared;
  ask = onAsk;
  for (const slider of offered.sliders) $("knobs").append(makeSlider(slider));
  fill($("queue"), offered.queues.map(name => [name, name]));
  fill($("tunnel"), offered.tunnels.map(t => [t.name, t.name === "direct" ? "none" : t.name]));
  fill($("kernel"), offered.kernels.map(name => [name, name]));
  onChange($("queue"), () => set("queue", $("queue").value, "fifo"));
  onChange($("tunnel"), () => {
    for (const name of Object.keys(question.settings)) if (name.startsWith(
      "cc.")) delete question.settings[name];
    set("tunnel", $("tunnel").value, "direct");
  });
  onChange($("kernel"), () => set("kernel", $("kernel").value, "shipped"));
  onChange($("ecn"), () => set("ecn", $("ecn").checked ? "on" : "off", "off"));
  onChange($("several"), () => { question.repeat = $("several").checked ? SEVERAL : 1; });
  onChange($("seed"), () => whole($("seed"), value => { question.seed = value; }));
  onChange($("duration"), () => whole($("duration"), value => {
    question.settings.duration = `${value}s`; }));
  $("add").onclick = addFlow;
  buildOthers();
  rateCurve = makeRateCurve($("rate-curve"), text => {
    if (text) question.settings.changes = text; else delete question.settings.changes;
    changed();
    ask();
  });
  offered.presets.forEach((preset, index) => {
    const button = el("button", { type: "button" },
      el("b", { textContent: preset.title }), el("span", { textContent: preset.text }));
    button.onclick = () => {
      loadPreset(preset, index);
      $("presets").open = false;
      $("preset-summary").focus();
      clearMarks();
      ask();
    };
    $("preset-list").append(el("li", {}, button));
  });
}

function fill(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value,
    textContent: text })));
}

function onChange(field, act) {
  field.addEventListener("change", () => { field.removeAttribute("aria-invalid"); act(); changed();
    ask(); });
}

function set(name, value, usual) {
  if (value === usual) delete question.settings[name]; else question.settings[name] = value;
}

function whole(field, take) {
  const value = Number(field.value);
  if (Number.isInteger(value) && value > 0) take(value);
    else field.setAttribute("aria-invalid", "true");
}

function makeSlider(slider) {
  const id = "k-" + slider.name;
  const input = el("input", { id, type: "text", inputMode: "decimal" });
  const range = el("input", { type: "range", min: 0, max: 1000, step: 1, id: "s-" + slider.name });
  range.setAttribute("aria-label", `${slider.label}, logarithmic`);
  input.setAttribute("aria-describedby", "note");
  const scale = el("div", { className: "scale" });
  scale.setAttribute("aria-hidden", "true");
  for (const mark of slider.marks) {
    const span = el("span", { textContent: String(mark) });
    span.style.left = toPosition(slider, mark) / 10 + "%";
    scale.append(span);
  }
  const take = value => {
    question.settings[slider.name] = `${value}${slider.suffix}`;
    input.removeAttribute("aria-invalid");
    changed();
    ask({ dragging: true });
  };
  range.addEventListener("keydown", event => { // a step is a twentieth of a decade
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5,
      PageDown: -5 }[event.key];
    if (!by) return;
    event.preventDefault();
    const decades = Math.log10(slider.ends[1] / slider.ends[0]);
    range.value = +range.value + by * 1000 / (decades * 20);
    range.dispatchEvent(new Event("input"));
  });
  range.addEventListener("input", () => take(toValue(slider, +range.value)));
  range.addEventListener("change", showControls);
  input.addEventListener("keydown", event => {
    if (event.key === "Enter") { event.preventDefault(); input.dispatchEvent(new Event("change")); }
    const by = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const value = numberOf(slider, question.settings[slider.name]);
    if (by && value) {
      event.preventDefault();
      take(+(value * 10 ** (by / 20)).toPrecision(2));
      showControls();
    }
  });
  input.addEventListener("change", () => {
    const text = input.value.trim();
    input.removeAttribute("aria-invalid");
    if (!text) delete question.settings[slider.name];
    else question.settings[slider.name] = /^[\d.]+$/.test(text) ? text + slider.suffix : text;
    changed();
    ask();
  });
  return el("div", { className: "knob" },
    el("label", { htmlFor: id, textContent: slider.label }),
    el("span", { className: "num" }, input, el("span", { textContent: slider.unit })), range,
      scale);
}

// Settings without a control of their own: one is chosen from the list, then written.
function buildOthers() {
  const rest = offered.settings.filter(s => !offered.with_controls.includes(s.name));
  const oneWay = offered.directions.flatMap(direction =>
    offered.path_fields.map(name => [`${direction}.${name}`, `${name}, ${direction} only`]));
  fill($("add-setting"), [["", "Another setting …"], ...rest.map(s => [s.name,
    s.name.replace(/_/g, " ")]), ...oneWay]);
  $("add-setting").onchange = () => {
    const name = $("add-setting").value;
    $("add-setting").value = "";
    if (!name) return;
    const field = declaredField(name);
    question.settings[name] = field.values.find(v => v !== field.default)
      || (/^[{[]/.test(field.example) ? field.example : field.example.split(", ")[0]);
    changed();
    ask();
    $("o-" + name)?.focus();
  };
}

function declaredField(name) {
  const short = name.replace(/^(forward|reverse)\./, "");
  return offered.settings.find(s => s.name === short)
    || { name, says: "", values: [], unit: "", example: "", default: null };
}

function showOthers() {
  const names = Object.keys(question.settings).filter(name =>
    !offered.with_controls.includes(name) && !name.startsWith("cc."));
  const focused = document.activeElement?.id;
  $("others").replaceChildren(...names.map(name => {
    const field = declaredField(name), id = "o-" + name;
    const control = field.values.length ? el("select", { id, className: "short" })
      : el("input", { id, className: "field short", type: "text", value: question.settings[name] });
    if (field.values.length) {
      fill(control, field.values.map(v => [v, v]));
      control.value = question.settings[name];
    }
    onChange(control, () => { question.settings[name] = control.value.trim(); });
    const remove = el("button", { type: "button", className: "x", textContent: "×",
      onclick: () => { delete question.settings[name]; changed(); ask(); } });
    remove.setAttribute("aria-label", `Remove ${name}`);
    const words = name.replace(/_/g, " ").replace(/^(forward|reverse)\.(.*)/, "$2, $1");
    const label = el("label", { htmlFor: id, textContent: words, title: field.says });
    return el("div", { className: "line" }, label, control, remove);
  }));
  if (focused?.startsWith("o-")) $(focused)?.focus();
}

function showLegs() {
  const legs = offered.tunnels.find(t => t.name === question.settings.tunnel)?.legs || [];
  $("legs").replaceChildren(...legs.map(leg => {
    const name = `cc.${leg}`, id = "leg-" + leg;
    const select = el("select", { id, className: "short" });
    fill(select, [["", "as the flow"], ...offered.controls.map(c => [c.name, c.label])]);
    select.value = question.settings[name] || "";
    onChange(select, () => set(name, select.value, ""));
    return el("div", { className: "line leg" }, el("label", { htmlFor: id,
      textContent: `Control, ${leg} leg` }), select);
  }));
}

function addFlow() {
  const name = "abcdefgh".split("").find(n => !question.flows.some(f => f.name === n));
  const usual = ["cubic", "bbr", "bbr3", "reno"];
  const cc = usual.find(c => !question.flows.some(f => f.cc === c)) || "cubic";
  question.flows.push({ name, cc });
  changed();
  ask();
}

function showFlows() {
  const focused = document.activeElement?.id;
  const colours = coloursOf(question.flows.map(flow => ({ ...flow, cc: isTcp(flow) ? flow.cc
    || "cubic" : null })));
  $("flows").replaceChildren(...question.flows.map((flow, i) => {
    const swatch = el("span", { className: "swatch" });
    swatch.style.background = colours[i];
    const pick = (what, pairs, value, take, disabled = false) => {
      const select = el("select", { id: `f-${i}-${what}`, disabled });
      select.setAttribute("aria-label", `Flow ${flow.name}: ${what}`);
      fill(select, pairs);
      select.value = value;
      onChange(select, () => take(select.value));
      return select;
    };
    const write = (what, value, take, disabled = false) => {
      const input = el("input", { id: `f-${i}-${what}`, className: "field", type: "text",
        inputMode: "decimal", value, disabled });
      input.setAttribute("aria-label", `Flow ${flow.name}: ${what}`);
      onChange(input, () => {
        const number = Number(input.value);
        if (number >= 0 && number < 1000) take(number);
          else input.setAttribute("aria-invalid", "true");
      });
      return input;
    };
    const kind = flow.kind || "tcp", tcp = isTcp(flow);
    const controls = offered.controls.map(c => [c.name, c.label]);
    if (flow.cc && !controls.some(([name]) => name === flow.cc)) controls.push([flow.cc, flow.cc]);
    const remove = el("button", { type: "button", className: "x", textContent: "×",
      disabled: question.flows.length < 2,
      onclick: () => { question.flows.splice(i, 1); changed(); ask(); } });
    remove.setAttribute("aria-label", `Remove flow ${flow.name}`);
    return el("tr", {},
      el("td", {}, swatch),
      el("td", {}, tcp ? pick("control", controls, flow.cc || "cubic", value => { flow.cc = value;
        })
        : pick("control", [["", "–"]], "", () => {}, true)),
      el("td", {}, pick("kind", offered.kinds.map(k => [k.name, k.label]), kind,
        value => takeKind(flow, value))),
      el("td", {}, write("streams", tcp && kind === "tcp" ? flow.streams || 1 : "",
        n => { if (n > 1) flow.streams = Math.round(n); else delete flow.streams; },
          kind !== "tcp")),
      el("td", {}, write("start in seconds", parseFloat(flow.start) || 0,
        n => { delete flow.duration; if (n) flow.start = `${n}s`; else delete flow.start; })),
      el("td", {}, remove));
  }));
  $("add").hidden = question.flows.length >= MAX_FLOWS;
  if (focused?.startsWith("f-")) $(focused)?.focus();
}

function takeKind(flow, kind) {
  for (const key of Object.keys(flow)) if (!["name", "cc", "start", "duration"].includes(
    key)) delete flow[key];
  if (kind !== "tcp") flow.kind = kind;
  if (kind === "ping") flow.interval = "50ms";
  if (isTcp(flow)) flow.cc ||= "cubic"; else delete flow.cc;
}

// Show the question as it is; `accepted` has what a profile's path resolved to.
export function showControls() {
  for (const slider of offered.sliders) {
    const text = question.settings[slider.name], input = $("k-" + slider.name), range = $("s-"
      + slider.name);
    const resolved = accepted ? FROM_RUN[slider.name](accepted) : null;
    const value = text === undefined ? resolved : numberOf(slider, text);
    if (document.activeElement !== input || !input.hasAttribute("aria-invalid")) {
      input.value = text === undefined ? "" : value == null ? text
        : num(value).replace(/\u2009/g, "");
    }
    input.placeholder = text === undefined && resolved != null ? num(resolved) : "";
    const known = value ?? resolved; // of a text that is no number: the run's before
    const position = known == null ? 0 : Math.max(0, Math.min(1000, toPosition(slider, known)));
    if (document.activeElement !== range
      || Math.abs(range.value - position) > 20) range.value = position;
    range.style.setProperty("--at", range.value / 10 + "%");
    range.setAttribute("aria-valuetext", value == null ? text || "the profile’s"
      : `${num(value)} ${slider.unit}`);
  }
  $("queue").value = question.settings.queue || "fifo";
  $("tunnel").value = question.settings.tunnel || "direct";
  $("kernel").value = question.settings.kernel || "shipped";
  $("ecn").checked = !["off", undefined].includes(question.settings.ecn);
  $("several").checked = question.repeat > 1;
  $("seed").value = question.seed;
  $("duration").value = durationS();
  const at = question.preset, isPreset = at !== null && at >= 0;
  const preset = at === null ? null : offered.presets[isPreset ? at : -at - 1];
  $("preset-name").textContent = isPreset ? preset.title : "Your own question";
  $("preset-text").textContent = isPreset ? preset.text
    : preset ? `Began as “${preset.title}”` : "Began with a link";
  [...$("preset-list").children].forEach((item, i) =>
    item.firstElementChild.setAttribute("aria-current", i === question.preset));
  showLegs();
  showOthers();
  showFlows();
  rateCurve.show(question.settings.changes, accepted?.rate_mbit ?? numberOf(offered.sliders[0],
    question.settings.rate), durationS());
}

export function showAccepted(run) {
  accepted = run;
  const full = run.full_ms == null ? ""
    : `: up to ${num(+run.full_ms.toPrecision(2))} ms of waiting`;
  $("buffer-is").textContent = run.limit_pkts ? `${num(run.limit_pkts)} packets${full}` : "";
  showControls();
}

// Mark the field that an error is about.
export function markInvalid(key) {
  const field = key && ($("k-" + key) || $("o-" + key) || $(key));
  if (field?.matches?.("input, select")) field.setAttribute("aria-invalid", "true");
}

export function clearMarks() {
  document.querySelectorAll("[aria-invalid]").forEach(field => field.removeAttribute(
    "aria-invalid"));
}
