// SPDX-License-Identifier: MIT
// The teacher's page: who is where, predictions beside what was measured, grades.

import { $, el, num } from "./dom.js";

const POLL_MS = 3000, BINS = 12, WIDE = 360, HALF = 62;
const SAYS = { new: "–", predicting: "predicting", predicted: "predicted", running: "running",
  explaining: "explaining", "handed in": "handed in", broken: "broken" };
let labs = [], drawn = "";

async function send(method, path) {
  const response = await fetch(path, { method });
  const text = await response.text();
  if (!response.ok) {
    let reason = text.trim();
    try { reason = JSON.parse(text).text; } catch { /* a line of text */ }
    throw new Error(reason);
  }
  return JSON.parse(text);
}

function say(text) {
  $("note").textContent = text;
  $("note").hidden = !text;
}

function cell(student, lab) {
  const { stage, done, runs } = student.labs[lab.name];
  const text = stage === "running" ? `${done} of ${runs} runs` : SAYS[stage];
  const isHere = student.at === lab.name && student.seen_ago_s < 120;
  const classes = [isHere ? "at" : "", stage === "handed in" ? "handed" : ""];
  return el("td", { textContent: text, className: classes.join(" ").trim() });
}

function seen(ago_s) {
  if (ago_s == null) return "not yet";
  return ago_s < 60 ? "now" : ago_s < 5400 ? `${Math.round(ago_s / 60)} min ago`
    : `${Math.round(ago_s / 3600)} h ago`;
}

function showClass(all) {
  labs = all.labs;
  $("course").textContent = `${all.course} · ${all.students.length} students`;
  const codes = $("codes").getAttribute("aria-pressed") === "true";
  const heads = ["Student", ...(codes ? ["Code"] : []), "Seen", ...labs.map(lab =>
    lab.title.replace(/:.*/, ""))];
  $("class").tHead.replaceChildren(el("tr", {}, ...heads.map(text => el("th", { scope: "col",
    textContent: text }))));
  $("class").tBodies[0].replaceChildren(...all.students.map(student => el("tr", {},
    el("td", { textContent: student.name === student.student ? student.name
      : `${student.name} (${student.student})` }),
    ...(codes ? [el("td", {}, el("code", { textContent: student.code }))] : []),
    el("td", { textContent: seen(student.seen_ago_s), className:
      student.seen_ago_s == null ? "away" : "" }),
    ...labs.map(lab => cell(student, lab)))));
  if (!$("lab").options.length) {
    $("lab").replaceChildren(...labs.map(lab => el("option", { value: lab.name,
      textContent: lab.title })));
  }
}

const svg = (name, attributes, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
};

// Bars upwards: what was predicted; downwards: what was right for the same students.
function histogram(given) {
  const predicted = given.map(one => parseFloat(one.predicted)).filter(Number.isFinite);
  const right = given.map(one => one.right).filter(Number.isFinite);
  const all = [...predicted, ...right], low = Math.min(...all), high = Math.max(...all);
  const isLog = low > 0 && high / low > 20, to = isLog ? Math.log : x => x;
  const back = isLog ? Math.exp : x => x, start = to(low), span = to(high) - start || 1;
  const bin = x => Math.min(BINS - 1, Math.floor((to(x) - start) / span * BINS));
  const count = values => values.reduce((bins, x) => { bins[bin(x)]++; return bins; },
    Array(BINS).fill(0));
  const up = count(predicted), down = count(right), most = Math.max(1, ...up, ...down);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${2 * HALF + 22}`, role: "img" });
  const step = WIDE / BINS, size = n => n / most * (HALF - 6);
  for (let i = 0; i < BINS; i++) {
    const x = i * step + 1.5, width = step - 3;
    if (up[i]) picture.append(svg("rect", { class: "predicted", x, width, y: HALF - size(up[i]),
      height: size(up[i]) }));
    if (down[i]) picture.append(svg("rect", { class: "right", x, width, y: HALF + 1,
      height: size(down[i]) }));
  }
  picture.append(svg("line", { class: "axis", x1: 0, x2: WIDE, y1: HALF + .5, y2: HALF + .5 }));
  for (const [share, anchor] of [[0, "start"], [.5, "middle"], [1, "end"]]) {
    picture.append(svg("text", { x: share * WIDE, y: 2 * HALF + 16, "text-anchor": anchor },
      num(back(start + share * span))));
  }
  return picture;
}

function words(given) {
  const count = key => given.reduce((all, one) => { const word = String(one[key] ?? "");
    if (word) all.set(word, (all.get(word) || 0) + 1); return all; }, new Map());
  const predicted = count("predicted"), right = count("right");
  const rows = [...new Set([...predicted.keys(), ...right.keys()])].map(word => el("tr", {},
    el("td", { textContent: word }), el("td", { textContent: predicted.get(word) || 0 }),
    el("td", { textContent: right.get(word) || 0 })));
  const heads = ["Word", "Predicted", "Right"].map(text => el("th", { scope: "col",
    textContent: text }));
  return el("table", { className: "n" }, el("thead", {}, el("tr", {}, ...heads)),
    el("tbody", {}, ...rows));
}

function pointFigure(point) {
  const known = point.given.filter(one => one.is_near != null);
  const near = known.filter(one => one.is_near).length;
  const summary = known.length ? `${near} of ${known.length} right${point.band
    ? ` (${point.band})` : ""}` : "not measured yet";
  const says = point.says.replace(/<([^<>]+)>/g, "$1"); // formulas of each student's values
  const figure = el("figure", { className: "histogram" }, el("figcaption", {},
    el("b", { textContent: point.name.replace(/^predict-/, "")
      .replace(/-/g, " ").replace(/\b(rtt|bdp|bbr)\b/g, word => word.toUpperCase()) }),
    el("span", { textContent: ` ${says} · ${summary}` })));
  if (!point.given.length) return figure;
  if (!point.is_number) { figure.append(words(point.given)); return figure; }
  const picture = histogram(point.given);
  picture.setAttribute("aria-label", `Predicted: ${point.given.map(one => one.predicted)
    .join(", ")}. Right: ${point.given.map(one => one.right ?? "unknown").join(", ")}.`);
  figure.append(picture);
  return figure;
}

async function showPredictions() {
  if (!$("lab").value) return;
  const all = await send("GET", `/teacher/labs/${encodeURIComponent($("lab").value)}`);
  $("command").textContent = all.command;
  const now = JSON.stringify(all.points);
  if (now === drawn) return;
  drawn = now;
  $("says").replaceChildren(`Students who have sealed: ${all.students}. `, el("i", {
    className: "key p" }), "predicted, upwards ", el("i", { className: "key r" }),
    "measured or computed for the same paths, downwards");
  $("histograms").replaceChildren(...all.points.map(pointFigure));
  document.documentElement.dataset.sealed = all.students;
}

// The grader's table keeps its columns; what it says below is sentences, and may be long.
function showPrinted(lines) {
  const end = lines.findIndex(line => /^\d+ graded/.test(line));
  const rows = end < 0 ? lines.length : end;
  $("printed").replaceChildren(el("pre", { tabIndex: 0, textContent: lines.slice(0, rows)
    .join("\n") }), ...lines.slice(rows).map(line => el("p", { className: "small",
    textContent: line })));
  $("printed").hidden = false;
}

async function grade() {
  $("grade").disabled = true;
  $("live").textContent = "Grading …";
  try {
    const name = encodeURIComponent($("lab").value);
    const { printed, tables } = await send("POST", `/teacher/labs/${name}/grades`);
    showPrinted(printed.trim().split("\n"));
    $("tables").replaceChildren(...tables.map(table => el("a", { className: "button",
      href: `/teacher/labs/${name}/grades/${table}`, textContent: table, download: table })));
    $("live").textContent = "Graded.";
    say("");
    document.documentElement.dataset.graded = $("lab").value;
  } catch (error) { say(error.message); }
  $("grade").disabled = false;
}

async function poll() {
  try {
    showClass(await send("GET", "/teacher/class"));
    await showPredictions();
    if (document.body.classList.contains("away")) say("");
    document.body.classList.remove("away");
    document.documentElement.dataset.state = "shown";
  } catch (error) {
    document.body.classList.add("away");
    say(error instanceof TypeError ? "The server does not answer. Trying again." : error.message);
  }
}

async function start() {
  history.replaceState(null, "", "/teacher"); // a screen that is shared shows no token
  $("address").textContent = `${location.origin}/class`;
  $("codes").onclick = () => {
    const pressed = $("codes").getAttribute("aria-pressed") !== "true";
    $("codes").setAttribute("aria-pressed", pressed);
    $("codes").textContent = pressed ? "Hide codes" : "Show codes";
    poll();
  };
  $("lab").onchange = () => { drawn = ""; showPredictions(); };
  $("grade").onclick = grade;
  document.documentElement.dataset.ready = "";
  for (;;) {
    await poll();
    await new Promise(done => setTimeout(done, POLL_MS));
  }
}

start();
