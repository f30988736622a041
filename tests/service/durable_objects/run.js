// Runs the scenarios on Durable Objects and prints the answers as JSON: node run.js SCENARIOS
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { setTimeout as delay } from "node:timers/promises";
import { Miniflare } from "miniflare";

const COMPATIBILITY_DATE = "2026-03-01";
const version = createRequire(import.meta.url)("miniflare/package.json").version;
const scenarios = JSON.parse(await readFile(process.argv[2], "utf8"));
const miniflare = new Miniflare({
  modules: true,
  scriptPath: new URL("worker.js", import.meta.url).pathname,
  compatibilityDate: COMPATIBILITY_DATE,
  durableObjects: { PEERS: { className: "Peer", useSQLite: true } },
});

async function ask(body) {
  const url = "http://peer/";
  const response = await miniflare.dispatchFetch(url, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(await response.text());
  return await response.json();
}

async function run({ name, on_alarm: onAlarm = [[]], acts }) {
  const start = Date.now();
  const answers = [];
  for (const act of acts) {
    if (act.until !== undefined) await delay(Math.max(start + act.until * 1000 - Date.now(), 0));
    else answers.push(await ask({ name, start, onAlarm, calls: act.together ?? [act.call] }));
  }
  return [name, { answers, alarms: await ask({ name }) }];
}

// On a busy machine the first answer of each object takes long.
for (const { name } of scenarios) await ask({ name });
// All at once, since most of the time is spent waiting for alarms.
const answers = Object.fromEntries(await Promise.all(scenarios.map(run)));
const runtime = { miniflare: version, compatibility_date: COMPATIBILITY_DATE };
process.stdout.write(`${JSON.stringify({ runtime, answers })}\n`);
await miniflare.dispose();
