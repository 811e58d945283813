// SPDX-License-Identifier: MIT
// The question: settings as ./lab try has them, flows, seed and repetitions. The address bar holds
// it, so that a link asks it again.

const OMITTED = { profile: "plain-100ms", topology: "dumbbell", sample: "100ms", duration: "10s" };
const DEFAULTS = { profile: "plain-100ms", topology: "dumbbell", duration: "10s", sample: "100ms" };
const RESERVED = ["flows", "seed", "repeat", "token"];

// The preset is a number, below 0 after a change, and null if an address held the question.
export const question = { settings: {}, flows: [], seed: 1, repeat: 1, preset: 0 };

export function loadPreset(preset, index) {
  question.settings = { ...preset.settings };
  question.flows = Object.entries(preset.flows).map(([name, fields]) => ({ name, ...fields }));
  question.preset = index;
}

// What was changed is no preset any more; which one it began as is still known.
export function changed() {
  if (question.preset !== null && question.preset >= 0) question.preset = -question.preset - 1;
}

export const isTcp = flow => !["ping", "udp"].includes(flow.kind || "tcp");
export const durationS = () => parseFloat(question.settings.duration) || 10;

function flowFields(flow, hasLegs) {
  const fields = Object.entries(flow).filter(([key, value]) =>
    key !== "name" && value !== "" && value != null && !(hasLegs && key === "cc"));
  const startS = parseFloat(flow.start) || 0;
  if (startS > 0) {
    const length = fields.find(([key]) => key === "duration");
    const rest = `${Math.max(1, Math.round(durationS() - startS))}s`;
    if (length) length[1] = rest; else fields.push(["duration", rest]);
  }
  return fields;
}

export function flowsText(hasLegs = legsSet()) {
  const texts = question.flows.map(flow => {
    const fields = flowFields(flow, hasLegs);
    return `${flow.name}: {${fields.map(([key, value]) => `${key}: ${value}`).join(", ")}}`;
  });
  return `{${texts.join(", ")}}`;
}

export const legsSet = () => Object.keys(question.settings).some(name => name.startsWith("cc."));

// The settings of a request. A flow without a control takes the run's `cc`.
export function requestSettings() {
  const settings = { ...question.settings }, legs = legsSet();
  delete settings.cc;
  const first = question.flows.find(flow => flow.cc);
  const all = question.flows.every(flow => flow.cc);
  if (!all || legs) settings.cc = first ? first.cc : "cubic";
  settings.flows = flowsText(legs);
  return settings;
}

export function request() {
  return { settings: requestSettings(), seed: question.seed, repeat: question.repeat };
}

export function address() {
  const params = new URLSearchParams();
  for (const [name, text] of Object.entries(question.settings)) {
    if (OMITTED[name] !== text) params.set(name, text);
  }
  params.set("flows", flowsText(false));
  if (question.seed !== 1) params.set("seed", question.seed);
  if (question.repeat !== 1) params.set("repeat", question.repeat);
  return `${location.origin}/?${params}`;
}

// Split a text at its outermost commas.
function outermost(text) {
  const parts = [];
  let depth = 0, part = "";
  for (const letter of text) {
    if ("{[(".includes(letter)) depth++;
    if ("}])".includes(letter)) depth--;
    if (letter === "," && depth === 0) { parts.push(part); part = ""; } else part += letter;
  }
  return [...parts, part].map(part => part.trim()).filter(Boolean);
}

function parseFlows(text) {
  const inside = text.trim().replace(/^\{|\}$/g, "");
  return outermost(inside).map(entry => {
    const at = entry.indexOf(":"), name = entry.slice(0, at).trim();
    const fields = entry.slice(at + 1).trim().replace(/^\{|\}$/g, "");
    return Object.assign({ name }, Object.fromEntries(outermost(fields).map(field => {
      const colon = field.indexOf(":");
      return [field.slice(0, colon).trim(), field.slice(colon + 1).trim()];
    })));
  });
}

// Take the question of an address; false if it holds none.
export function readAddress(search) {
  const params = new URLSearchParams(search);
  if (!params.has("flows")) return false;
  question.settings = { ...DEFAULTS };
  for (const [name, text] of params) if (!RESERVED.includes(name)) question.settings[name] = text;
  question.flows = parseFlows(params.get("flows"));
  const whole = name => Math.max(1, parseInt(params.get(name), 10) || 1);
  question.seed = whole("seed");
  question.repeat = whole("repeat");
  question.preset = null;
  return question.flows.length > 0;
}
