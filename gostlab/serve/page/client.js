// SPDX-License-Identifier: MIT
// Talk to the server: ask, follow a run's events, cancel. The newest question alone is followed.

const CLIENT = crypto.getRandomValues(new Uint32Array(2)).join("-");
const HEADERS = { "content-type": "application/json", "x-gostlab-client": CLIENT };
const RETRY_MS = 1000;
let serial = 0, source = null, runId = null, retry = 0;

function close() {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
}

// Ask a question. `on` has a function per event, and: refused({key, text}), away(), back().
export async function ask(body, on) {
  const mine = ++serial;
  close();
  let response;
  try {
    response = await fetch("/runs", { method: "POST", headers: HEADERS,
      body: JSON.stringify(body) });
  } catch {
    if (mine !== serial) return;
    on.away();
    retry = setTimeout(() => ask(body, on), RETRY_MS);
    return;
  }
  if (mine !== serial) return;
  if (response.status === 429) {
    retry = setTimeout(() => ask(body, on), RETRY_MS);
    return;
  }
  if (!response.ok) {
    const text = await response.text();
    if (mine !== serial) return;
    try { on.refused(JSON.parse(text)); } catch { on.refused({ key: null, text: text.trim() }); }
    return;
  }
  const { id } = await response.json();
  if (mine !== serial) return;
  on.back();
  runId = id;
  follow(id, mine, body, on);
}

function follow(id, mine, body, on) {
  source = new EventSource(`/runs/${id}/events`);
  for (const name of ["accepted", "samples", "answer", "refused", "cancelled"]) {
    source.addEventListener(name, event => {
      if (mine !== serial) return;
      if (["answer", "refused", "cancelled"].includes(name)) { source.close(); runId = null; }
      on[name](JSON.parse(event.data));
    });
  }
  source.onerror = () => {
    if (mine !== serial) return;
    on.away();
    // A browser goes on from the last event it had; a server that was restarted has no such run.
    if (source.readyState === EventSource.CLOSED) {
      retry = setTimeout(() => ask(body, on), RETRY_MS);
    }
  };
  source.onopen = () => on.back();
}

export function cancel() {
  if (runId) fetch(`/runs/${runId}`, { method: "DELETE", headers: HEADERS }).catch(() => {});
  serial++;
  close();
  runId = null;
}

export async function tcLines(id) {
  const response = await fetch(`/runs/${id}/tc`);
  return response.ok ? response.text() : "";
}

// Run a question once more, with its packets recorded, and return them; its samples are equal.
export async function packets(body) {
  const settings = { capture: "wan", ...body.settings };
  const headers = { ...HEADERS, "x-gostlab-client": `${CLIENT}-packets` };
  const sent = JSON.stringify({ ...body, settings, repeat: 1 });
  const response = await fetch("/runs", { method: "POST", headers, body: sent });
  if (!response.ok) throw new Error(JSON.parse(await response.text()).text);
  const { id } = await response.json();
  await new Promise((resolve, reject) => {
    const events = new EventSource(`/runs/${id}/events`);
    const end = act => event => { events.close(); act(event); };
    events.addEventListener("answer", end(resolve));
    events.addEventListener("cancelled", end(() => reject(new Error("cancelled"))));
    events.addEventListener("refused",
      end(event => reject(new Error(JSON.parse(event.data).text))));
  });
  const file = await fetch(`/runs/${id}/packets`);
  if (!file.ok) throw new Error("this run has no capture");
  return file.blob();
}

export async function declarations() {
  const response = await fetch("/declarations");
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}
