// SPDX-License-Identifier: MIT
// A student's page: join, read, predict, run, explain. The server has all that is written.

import { $, el, NB } from "./dom.js";

const STEPS = ["Read", "Predict", "Run", "Explain", "Handed in"];
const STEP_OF = { new: 0, predicting: 1, predicted: 2, running: 2, explaining: 3, "handed in": 4 };
const SAYS = { new: "not begun", predicting: "to predict", predicted: "to run",
  running: "running", explaining: "to explain", "handed in": "handed in",
  broken: "needs your teacher" };
const SAVE_MS = 500, POLL_MS = 1000, REST_MS = 15000, RETRY_MS = 1000;
let lab = null, timer = 0, wasRunning = false;
const unsaved = new Map(); // "section key" -> {timer, text}

class Refused extends Error {}
class NotJoined extends Error {}

async function send(method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (response.status === 403 && path !== "/class/join") throw new NotJoined();
  const text = await response.text();
  if (!response.ok) {
    let reason = text.trim();
    try { reason = JSON.parse(text).text; } catch { /* a line of text */ }
    throw new Refused(reason);
  }
  return text ? JSON.parse(text) : null;
}

// Send, and try again until the server answers.
async function sendSurely(method, path, body) {
  for (;;) {
    try {
      const answer = await send(method, path, body);
      if (document.body.classList.contains("away")) { say(""); }
      document.body.classList.remove("away");
      return answer;
    } catch (error) {
      if (error instanceof NotJoined) { showJoin(); throw error; }
      if (error instanceof Refused) throw error;
      document.body.classList.add("away");
      say("The server does not answer. Trying again; nothing that you write is lost.");
      await new Promise(done => setTimeout(done, RETRY_MS));
    }
  }
}

function say(text, isRefusal = false) {
  $("note").textContent = text;
  $("note").className = isRefusal ? "note bad" : "note mild";
  $("note").hidden = !text;
}

const here = path => `/class/labs/${lab.name}${path}`;

// A line of the server's as [text, field]: in place of a key of answers.yaml stands its question,
// and the field is the one to write into, if the line is about one.
function ofAnswer(line) {
  const said = line.replace(/^.*answers\.yaml: /, "");
  const [, section, key, why] = /^(predictions|answers)\.(\w+): (.*)$/s.exec(said) || [];
  const asked = lab.questions.find(one => one.section === section && one.key === key);
  if (!asked) return [said, $("own").hidden || !said.startsWith(lab.own.file) ? null
    : $("own-file")];
  return [`${asked.says}: ${why}`, $(`${section}-${key}`)];
}

function mark(field) {
  field.setAttribute("aria-invalid", "true");
  field.addEventListener("input", () => field.removeAttribute("aria-invalid"), { once: true });
}

// Act for a button: what the server refuses is said, not thrown, and its field has the focus.
async function act(button, work) {
  button.disabled = true;
  say("");
  let toMend = null;
  try { await work(); } catch (error) {
    if (error instanceof Refused) {
      const [text, field] = ofAnswer(error.message);
      say(text, true);
      toMend = field;
    } else if (!(error instanceof NotJoined)) throw error;
  }
  button.disabled = false;
  if (lab) await refresh();
  if (toMend) { mark(toMend); toMend.focus(); }
}

function showJoin() {
  clearTimeout(timer);
  lab = null;
  $("joined").hidden = true;
  $("join").hidden = false;
  document.documentElement.dataset.state = "joining";
  $("name").focus();
}

async function join(event) {
  event.preventDefault();
  const body = { name: $("name").value, code: $("code").value };
  try {
    await send("POST", "/class/join", body);
    $("join-note").hidden = true;
    $("code").value = "";
    await start();
    $("main").focus();
  } catch (error) {
    $("join-note").textContent = error instanceof Refused ? `${error.message}.`
      : "The server does not answer.";
    $("join-note").hidden = false;
  }
}

async function start() {
  const me = await sendSurely("GET", "/class/me");
  if (!me) { showJoin(); return; }
  $("join").hidden = true;
  $("joined").hidden = false;
  $("who").textContent = me.name;
  $("course").textContent = me.course;
  showLabs(me.labs);
  const named = me.labs.find(one => one.name === decodeURIComponent(location.hash.slice(1)));
  await openLab((named || me.labs.find(one => one.stage !== "handed in") || me.labs[0]).name);
}

function showLabs(labs) {
  $("labs").replaceChildren(...labs.map(one => el("li", {}, Object.assign(
    el("a", { href: `#${one.name}` }, el("b", { textContent: one.title }),
      el("span", { textContent: SAYS[one.stage] })), { id: `to-${one.name}` }))));
}

async function openLab(name) {
  clearTimeout(timer);
  await saveAll();
  lab = await sendSurely("GET", `/class/labs/${encodeURIComponent(name)}`);
  wasRunning = lab.is_requested;
  $("left").hidden = true; // it was of another lab
  document.title = `${lab.title} – gostlab`;
  $("title").textContent = lab.title;
  for (const [part, html] of Object.entries(lab.guide)) {
    $(part).innerHTML = html; // made by the server from the lab's page, without its markup
    $(part).parentElement.hidden = !html;
    for (const table of $(part).querySelectorAll("table, pre")) table.tabIndex = 0;
    for (const image of $(part).querySelectorAll("img")) image.loading = "lazy";
  }
  $("reading").open = lab.stage === "predicting";
  $("values").replaceChildren(...Object.entries(lab.values).map(([key, value]) => el("div", {},
    el("dt", {}, el("code", { textContent: key })), el("dd", { textContent: value }),
    meaning(key))));
  $("settings").tBodies[0].replaceChildren(...Object.entries(lab.settings).map(([key, value]) =>
    el("tr", {}, el("td", {}, el("code", { textContent: key })),
      el("td", {}, el("code", { textContent: value })))));
  $("all-settings").open = Boolean(lab.own && lab.own.is_run); // the trap is to be found in them
  $("whose").textContent = lab.own && lab.own.is_run ? "the lab's" : "your";
  $("knobs").textContent = lab.own && lab.own.is_run ? "Look inside the lab's path"
    : "Look inside this path";
  $("knobs-more").hidden = !(lab.own && lab.own.is_run);
  $("knobs").href = `/?${new URLSearchParams({ ...lab.path, flows: "{flow: {cc: cubic}}" })}`;
  for (const section of ["predictions", "answers"]) {
    $(section).replaceChildren(...lab.questions.filter(one => one.section === section)
      .map(question));
  }
  $("own").hidden = !lab.own;
  $("own").replaceChildren(...(lab.own ? [ownFile(lab.own)] : []));
  say("");
  for (const link of document.querySelectorAll("#labs a")) {
    link.removeAttribute("aria-current");
    if (link.id === `to-${lab.name}`) {
      link.setAttribute("aria-current", "page");
      link.parentElement.parentElement.scrollLeft = link.parentElement.offsetLeft
        - link.parentElement.parentElement.offsetLeft;
    }
  }
  show(lab);
  document.documentElement.dataset.state = "lab";
  document.documentElement.dataset.lab = lab.name;
}

const withCode = text => text.split("`").map((part, i) => i % 2
  ? el("code", { textContent: part }) : part.replace(/(\d) %/g, `$1${NB}%`));

// What a drawn value is, with its unit, as the lab's page says it.
function meaning(key) {
  const says = el("dd", { className: "meaning" });
  says.innerHTML = lab.meanings[key] || "";
  return says;
}

function question(asked) {
  const id = `${asked.section}-${asked.key}`, isLong = asked.kind === "text";
  const field = el(isLong ? "textarea" : "input", { id, className: "field", value: asked.text,
    spellcheck: isLong });
  if (!isLong) Object.assign(field, { type: "text", autocomplete: "off" });
  if (asked.kind === "number") field.inputMode = "decimal";
  field.addEventListener("input", () => later(asked, field.value, SAVE_MS));
  field.addEventListener("change", () => later(asked, field.value, 0));
  const points = el("span", { textContent: ` ${asked.points}${NB}point${asked.points > 1
    ? "s" : ""}` });
  const how = el("span", { className: "how", id: `how-${id}` });
  how.innerHTML = lab.instructions[`${asked.section}.${asked.key}`] || "";
  if (how.innerHTML) field.setAttribute("aria-describedby", how.id);
  return el("div", { className: isLong ? "question long" : "question" },
    el("div", {}, el("label", { htmlFor: id }, ...withCode(asked.says), points), how), field);
}

// The student's own file: an experiment, which is run, or a program, which is only handed in.
function ownFile(own) {
  const asked = { section: "own", key: own.file, kind: "text", text: own.text };
  const field = el("textarea", { id: "own-file", className: "field code", value: own.text,
    spellcheck: false, rows: own.is_run ? 12 : 20 });
  field.addEventListener("input", () => later(asked, field.value, SAVE_MS, "/own"));
  field.addEventListener("change", () => later(asked, field.value, 0, "/own"));
  const says = own.is_run ? "as the lab's page has it, with your values. It is run beside theirs."
    : "is handed in with the rest. No page compiles it: check and rank it by the commands of the"
      + " lab's page, on a machine of your own.";
  return el("div", { className: "question long" },
    el("label", { htmlFor: "own-file", className: "file" }, el("b", { textContent: own.file }),
      ` ${says}`), field);
}

function later(asked, text, waitMs, path = "/answers") {
  const key = `${asked.section} ${asked.key}`, before = unsaved.get(key);
  if (before) clearTimeout(before.timer);
  const own = { asked, text, path: here(path), timer: 0 };
  own.timer = setTimeout(() => save(key, own), waitMs);
  unsaved.set(key, own);
  document.documentElement.dataset.saved = "no";
}

async function save(key, own) {
  clearTimeout(own.timer);
  const { section, key: name } = own.asked;
  try {
    const answer = await sendSurely("POST", own.path, { section, key: name, text: own.text });
    if (answer) sayOfOwn(answer.own_complaint);
    if (answer && own.path === here("/own")) await refresh(); // it says which runs there are
  } catch (error) {
    if (error instanceof Refused) say(error.message, true);
  }
  own.asked.text = own.text;
  if (unsaved.get(key) === own) unsaved.delete(key);
  if (!unsaved.size) {
    document.documentElement.dataset.saved = "yes";
    $("live").textContent = "Saved.";
  }
}

function sayOfOwn(complaint) {
  $("own-note").textContent = complaint ? `${complaint}.` : "";
  $("own-note").hidden = !complaint;
}

const saveAll = () => Promise.all([...unsaved].map(([key, own]) => save(key, own)));

// Show what changes: stage, runs, what is sealed and handed in.
function show(now) {
  Object.assign(lab, now);
  const at = STEP_OF[lab.stage] ?? 0, sealed = Boolean(lab.sealed_at);
  $("steps").replaceChildren(...STEPS.map((name, i) => {
    const item = el("li", { textContent: name, className: i < at || at === 4 ? "done" : "" });
    if (i === at) item.setAttribute("aria-current", "step");
    return item;
  }));
  const of = document.getElementById(`to-${lab.name}`);
  if (of) of.lastElementChild.textContent = SAYS[lab.stage];
  for (const field of $("predictions").querySelectorAll(".field")) field.readOnly = sealed;
  $("seal").hidden = sealed;
  $("sealed").textContent = sealed ? `Sealed ${local(lab.sealed_at)}. The seed of your runs is made`
    + " of them." : "They cannot be changed then: the seed of your runs is made of them.";
  const done = lab.runs.filter(run => !["running", "waiting"].includes(run.state)).length;
  $("run").disabled = !sealed || lab.is_requested;
  $("run").hidden = sealed && done === lab.runs.length && !lab.is_requested;
  $("run-says").textContent = !sealed ? "After the predictions."
    : lab.is_requested && done === lab.runs.length ? "Writing tables and figures …"
    : lab.is_requested ? `${done} of ${lab.runs.length} runs`
    : done ? `${done} of ${lab.runs.length} runs are done.${lab.has_report
      ? " Each matrix has its tables under Details." : ""}` : "";
  $("runs").hidden = !lab.runs.length;
  const runs = [...lab.runs].sort((one, other) => labelOf(one).localeCompare(labelOf(other),
    undefined, { numeric: true })); // they are made in an order that is drawn
  const names = runs.map(labelOf);
  $("runs").tBodies[0].replaceChildren(...runs.map((run, i) => {
    const equal = names.filter(name => name === names[i]).length;
    return row(run, equal === 1 ? names[i] : `${names[i]} · ${names.slice(0, i)
      .filter(name => name === names[i]).length + 1} of ${equal}`);
  }));
  $("report").hidden = !lab.has_report;
  $("report").href = here("/report");
  $("archive").hidden = !lab.handed_in_s;
  $("archive").href = here("/hand-in.zip");
  $("handed-in").textContent = lab.handed_in_s
    ? `Handed in ${local(lab.handed_in_s * 1000)}. You can hand in again.` : "";
  if (lab.complaint) say(lab.complaint);
  sayOfOwn(lab.own_complaint);
  if (wasRunning && !lab.is_requested) $("live").textContent = "All runs are done.";
  wasRunning = lab.is_requested;
  document.documentElement.dataset.stage = lab.stage;
  clearTimeout(timer);
  timer = setTimeout(refresh, lab.is_requested ? POLL_MS : REST_MS);
}

const local = time => new Date(time).toLocaleString([], { dateStyle: "medium",
  timeStyle: "short" });

const labelOf = run => [run.matrix, Object.values(run.levels).join(", ")].filter(Boolean)
  .join(": ");

function row(run, label) {
  const state = el("td", { textContent: run.state, className: `v-${run.state}` });
  const links = run.records.flatMap(file => [el("a", { textContent: file, target: "_blank",
    rel: "noopener", href: here(`/runs/${run.name}/${file}`) }), " "]);
  return el("tr", {}, el("td", { textContent: label }), el("td", { textContent:
    run.goodput_mbit ?? "" }), state, el("td", { className: "small" }, ...links));
}

async function refresh() {
  clearTimeout(timer);
  const asked = lab;
  try {
    const now = await sendSurely("GET", here("/progress"));
    if (asked === lab) show(now);
  } catch (error) {
    if (error instanceof Refused) say(error.message);
    else if (!(error instanceof NotJoined)) throw error;
  }
}

// What a hand-in lacks, as a way to it: that nothing is there needs no words below "missing".
function missing(line) {
  const [text, field] = ofAnswer(line.replace(/: nothing there\b.*$/s, ": "));
  const label = text.replace(/^results: |:\s*$| \(\.\/lab [^)]*\)/g, "");
  return el("li", {}, field ? el("button", { type: "button", className: "plain",
    textContent: label, onclick: () => field.focus() }) : label);
}

async function handIn(asItIs) {
  await saveAll();
  const { left, is_handed_in } = await sendSurely("POST", here("/hand-in"), { as_it_is: asItIs });
  $("left").hidden = is_handed_in;
  $("left").replaceChildren(el("b", { textContent: "Still missing:" }),
    el("ul", {}, ...left.map(missing)),
    el("button", { type: "button", className: "button", textContent: "Hand in as it is",
      onclick: () => act($("hand-in"), () => handIn(true)) }));
  if (is_handed_in) $("live").textContent = "Handed in.";
}

$("join").onsubmit = join;
$("seal").onclick = () => act($("seal"), async () => {
  await saveAll();
  await sendSurely("POST", here("/seal"), {});
});
$("run").onclick = () => act($("run"), () => sendSurely("POST", here("/run"), {}));
$("hand-in").onclick = () => act($("hand-in"), () => handIn(false));
$("leave").onclick = async () => { await saveAll(); await send("POST", "/class/leave");
  showJoin(); };
addEventListener("hashchange", () => {
  const name = decodeURIComponent(location.hash.slice(1));
  if (lab && name && name !== lab.name) openLab(name);
});
addEventListener("beforeunload", event => { if (unsaved.size) event.preventDefault(); });

document.documentElement.dataset.ready = "";
start().catch(error => { if (!(error instanceof NotJoined)) throw error; });
