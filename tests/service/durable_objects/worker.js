// A Durable Object that does what a scenario says: see scenarios.json and __init__.py.
import { DurableObject } from "cloudflare:workers";

// What a scenario knows of its object outside its storage, where nothing is undone.
const notes = new Map();

export class Peer extends DurableObject {
  get note() {
    const id = this.ctx.id.toString();
    if (!notes.has(id)) notes.set(id, { alarms: [] });
    return notes.get(id);
  }

  async run(start, onAlarm, acts) {
    Object.assign(this.note, { start, onAlarm });
    return await this.perform(acts);
  }

  alarms() {
    return this.note.alarms;
  }

  async alarm(info) {
    const { alarms, onAlarm, start, last } = this.note;
    const now = Date.now();
    const seen = { retries: info?.retryCount ?? 0 };
    // On a busy machine it is late. The delay of a retry is a power of two, up to a quarter more.
    if (seen.retries === 0) seen.at = Math.floor((now - start) / 1000 + 0.05);
    else seen.after = 2 ** Math.floor(Math.log2((now - last) / 1000 + 0.1));
    this.note.last = now;
    const acts = onAlarm[Math.min(alarms.length, onAlarm.length - 1)] ?? [];
    alarms.push(seen);
    seen.answers = [];
    await this.perform(acts, seen.answers);
  }

  async perform(acts, answers = []) {
    for (const [name, ...given] of acts) answers.push((await this[`do_${name}`](...given)) ?? null);
    return answers;
  }

  do_put(key, value) {
    return typeof key === "string" ? this.ctx.storage.put(key, value) : this.ctx.storage.put(key);
  }

  async do_get(key) {
    const found = await this.ctx.storage.get(key);
    return Array.isArray(key) ? Object.fromEntries(found) : found;
  }

  async do_delete(key) {
    return Number(await this.ctx.storage.delete(key));
  }

  async do_list(given = {}) {
    const { start_after: startAfter, ...options } = given;
    if (startAfter !== undefined) options.startAfter = startAfter;
    return [...(await this.ctx.storage.list(options))];
  }

  do_delete_all() {
    return this.ctx.storage.deleteAll();
  }

  do_put_many(count) {
    const names = Array.from({ length: count }, (_, number) => [`key-${number}`, number]);
    return this.ctx.storage.put(Object.fromEntries(names));
  }

  async do_get_many(count) {
    const names = Array.from({ length: count }, (_, number) => `key-${number}`);
    return (await this.ctx.storage.get(names)).size;
  }

  do_set_alarm(seconds) {
    return this.ctx.storage.setAlarm(this.note.start + seconds * 1000);
  }

  async do_get_alarm() {
    const at = await this.ctx.storage.getAlarm();
    return at === null ? null : Math.round((at - this.note.start) / 1000);
  }

  do_delete_alarm() {
    return this.ctx.storage.deleteAlarm();
  }

  async do_append(key, value) {
    const values = (await this.ctx.storage.get(key)) ?? [];
    await this.ctx.storage.put(key, [...values, value]);
  }

  async do_add_slowly(key) {
    const value = (await this.ctx.storage.get(key)) ?? 0;
    await scheduler.wait(100);
    await this.ctx.storage.put(key, value + 1);
  }

  do_fail() {
    throw new Error("as the scenario says");
  }
}

async function answerOf(call) {
  try {
    return await call;
  } catch (error) {
    return { error: error.message.includes("as the scenario says") ? "failed" : "refused" };
  }
}

export default {
  async fetch(request, env) {
    const { name, start, onAlarm, calls } = await request.json();
    const stub = env.PEERS.get(env.PEERS.idFromName(name));
    if (calls === undefined) return Response.json(await stub.alarms());
    const made = calls.map((acts) => answerOf(stub.run(start, onAlarm, acts)));
    return Response.json(await Promise.all(made));
  },
};
