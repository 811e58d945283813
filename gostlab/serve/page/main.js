// SPDX-License-Identifier: MIT
// Put the page together: the question, the run under way, what is drawn.

import { Finished, note, showMeta, showTables } from "./answer.js";
import { build, Curves, feed, feedSoon, leave, read, redraw } from "./charts.js";
import * as client from "./client.js";
import { declareColours } from "./colours.js";
import { buildControls, clearMarks, markInvalid, showAccepted, showControls } from "./controls.js";
import { $, el, NB, num, prefersStill } from "./dom.js";
import { buildExports, takeExports } from "./exports.js";
import { address, loadPreset, question, readAddress, request } from "./state.js";

const DRAG_MS = 120; // between two questions of a knob that is dragged
const STALE_MS = 300; // after which an answer that is not that of the question dims
let declared = null; // what the server offers
let now = null, ghost = null, pin = null; // finished runs
let active = null; // {curves, timer}
let dragTimer = 0, lastAsk = 0;

function ask({ dragging = false } = {}) {
  clearTimeout(dragTimer);
  if (!dragging) showControls();
  showShort();
  const wait = dragging ? Math.max(0, lastAsk + DRAG_MS - performance.now()) : 0;
  if (wait > 0) dragTimer = setTimeout(send, wait); else send();
}

function send() {
  lastAsk = performance.now();
  history.replaceState(null, "", address());
  begin();
  client.ask(request(), {
    accepted: take, samples, answer: finish, refused, cancelled, away, back,
  });
}

function showProgress(share, t_s) {
  $("run").firstElementChild.style.transform = `scaleX(${Math.min(1, share)})`;
  $("run").setAttribute("aria-valuenow", t_s.toFixed(1));
}

function begin() {
  end();
  showProgress(0, 0);
  active = { curves: null, timer: setTimeout(() => {
    document.body.classList.add("stale");
    $("cancel").hidden = false;
    if (!active.curves?.seenS) $("meta").textContent = "waiting for the first samples";
  }, STALE_MS) };
  document.body.classList.add("running");
  document.documentElement.dataset.state = "running";
  $("pin").disabled = true;
}

function end() {
  if (active) clearTimeout(active.timer);
  active = null;
  document.body.classList.remove("running", "stale", "away");
  $("cancel").hidden = true;
  $("pin").disabled = !now;
}

function take(accepted) {
  if (!active) begin();
  clearMarks();
  note("");
  active.curves = new Curves(accepted);
  if (now) ghost = now;
  showAccepted(accepted);
  takeExports(accepted);
  if (!prefersStill()) build(active.curves, ghost?.curves, pin?.curves);
}

function samples(data) {
  if (!active?.curves) return;
  active.curves.take(data);
  feedSoon();
  const { accepted } = active.curves, many = accepted.repetitions > 1;
  $("run").setAttribute("aria-valuemax", accepted.length_s);
  showProgress(data.t_s / accepted.length_s, data.t_s);
  if (document.body.classList.contains("stale")) {
    $("meta").textContent = `${data.t_s.toFixed(1)} of ${num(accepted.length_s)} s`
      + (many ? ` · repetition ${data.rep} of ${accepted.repetitions}` : "");
  }
}

function finish(answer) {
  const curves = active.curves;
  end();
  curves.complete = true;
  $("pin").disabled = false;
  const again = now && now.answer.folder === answer.folder && now.answer.runs === answer.runs;
  now = new Finished(curves, answer);
  if (again) ghost = null;
  if (prefersStill()) build(curves, ghost?.curves, pin?.curves); else feed();
  showAnswer();
  document.documentElement.dataset.state = "answered";
  document.documentElement.dataset.answers = 1 + Number(document.documentElement.dataset.answers
    || 0);
}

function showAnswer() {
  $("says-text").textContent = now.answer.sentence;
  $("live").textContent = now.answer.sentence;
  document.title = `${now.answer.sentence} – gostlab`;
  showMeta(now, ghost, pin);
  if (now.answer.flows.length) showTables(now, pin);
  const { verdict, reasons } = now.answer;
  if (verdict === "degraded") note(
    "degraded", "Degraded:", `${reasons[0] || ""}. `
      + "The machine had a say in this, not only the path.");
  else if (verdict !== "ok") note("bad", `${verdict[0].toUpperCase()}${verdict.slice(1)}:`,
    reasons[0] || "this run is no answer.");
  else note("");
  $("pin").setAttribute("aria-pressed", Boolean(pin));
  $("pin").firstChild.textContent = pin ? "Unpin" : "Pin";
}

function refused({ key, text }) {
  end();
  document.body.classList.add("stale");
  markInvalid(key);
  const colon = text.indexOf(": ");
  note("bad", colon > 0 ? text.slice(0, colon + 1).replace(/^--/, "") : text, colon > 0
    ? text.slice(colon + 2) : "");
  document.documentElement.dataset.state = "refused";
}

function cancelled({ t_s }) {
  end();
  document.body.classList.add("stale");
  note("mild", `Cancelled at ${t_s.toFixed(1)} s.`);
  const again = el("button", { type: "button", className: "plain", textContent: "run it again",
    onclick: () => ask() });
  const old = "Sentence and table are of the question before.";
  $("note").append(now ? el("span", { className: "wide", textContent: ` ${old}` }) : "",
    el("span", { textContent: " Turn a knob, or " }), again, ".");
  $("live").textContent = `Cancelled at ${t_s.toFixed(1)} s`;
  document.documentElement.dataset.state = "cancelled";
}

function cancel() {
  if (!active) return;
  const t_s = active.curves?.seenS || 0;
  client.cancel();
  cancelled({ t_s });
}

function away() {
  document.body.classList.add("away");
  note("mild", "The server does not answer.", "Trying again; ./lab serve starts it.");
  document.documentElement.dataset.state = "away";
}

function back() {
  if (!document.body.classList.contains("away")) return;
  document.body.classList.remove("away");
  document.documentElement.dataset.state = "running";
  note("");
}

function togglePin() {
  if (active || !now) return;
  pin = pin ? null : now;
  if (pin) ghost = null;
  build(now.curves, ghost?.curves, pin?.curves);
  showAnswer();
  $("live").textContent = pin ? "Pinned." : "Unpinned.";
}

const withUnit = text => text.replace(/^([\d.]+)(mbit|ms|bdp)$/, (_, number, unit) =>
  number + NB + { mbit: "Mbit/s", ms: "ms", bdp: "BDP" }[unit]);

function showShort() {
  const s = question.settings;
  const label = flow => declared.controls.find(cc => cc.name === flow.cc)?.label
    || declared.kinds.find(kind => kind.name === flow.kind)?.label || flow.cc || flow.kind;
  $("short").replaceChildren(question.flows.map(label).join(", "),
    el("small", { textContent: [s.rate, s.rtt, s.buffer].filter(Boolean).map(withUnit).join(" · ")
      || s.profile }));
}

function listen() {
  $("pin").onclick = togglePin;
  $("cancel").onclick = cancel;
  $("sheet").onclick = () => {
    const open = $("rail").classList.toggle("open");
    $("sheet").setAttribute("aria-expanded", open);
    $("sheet").lastElementChild.textContent = open ? "Done" : "Change";
  };
  $("question").onsubmit = event => event.preventDefault();
  addEventListener("keydown", event => {
    if (event.key === "Escape") {
      if ($("presets").open) { $("presets").open = false; $("preset-summary").focus(); }
      else if (active) cancel();
      else if ($("rail").classList.contains("open")) $("sheet").click();
    }
    const writes = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
      && event.target.type !== "range";
    if (event.key.toLowerCase() === "p" && !event.ctrlKey && !event.metaKey && !event.altKey
      && !writes) togglePin();
  });
  addEventListener("click", event => {
    if (!$("presets").contains(event.target)) $("presets").open = false; });
  $("charts").addEventListener("keydown", event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    $("live").textContent = read(by * (event.shiftKey ? 20 : 2));
  });
  $("charts").addEventListener("blur", leave);
  let timer = 0, before = "";
  const resized = () => {
    const size = `${$("charts").clientWidth} ${innerHeight}`;
    if (size === before) return;
    before = size;
    clearTimeout(timer);
    timer = setTimeout(redraw, 60);
  };
  new ResizeObserver(resized).observe($("charts"));
  addEventListener("resize", resized);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    redraw();
    showControls();
    if (now?.answer.flows.length) showTables(now, pin);
  });
  addEventListener("popstate", () => { if (readAddress(location.search)) ask(); });
}

async function start() {
  try {
    declared = await client.declarations();
  } catch (error) {
    note("bad", "The server does not answer:", error.message);
    return;
  }
  if (declared.course) {
    $("to-class").hidden = false;
    $("to-class").textContent = `Labs of ${declared.course}`;
  }
  declareColours(declared.controls);
  buildControls(declared, ask);
  buildExports(() => (active ? null : now));
  listen();
  if (!readAddress(location.search)) loadPreset(declared.presets[0], 0);
  ask();
  document.documentElement.dataset.ready = "1";
}

start();
