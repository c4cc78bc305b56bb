import { copyFileSync, existsSync, writeSync } from "node:fs";
import { converse, looksOf, type Moment, openGardener } from "../gardener.ts";
import type { StoreName } from "../stores.ts";

/** What a conversing process says of each of its moments, before anything comes of it. */
export interface Told {
  type: Moment["type"] | "day";
  /** Of an entry. */
  id?: string;
  /** The day that is asked about next; such a line is no moment. */
  day?: number;
}

/**
 * `conversing <store> <home> <file> <url> <until> <moment>`: has the conversation until that day, and kills itself at
 * that moment of its life (from 1; 0: never). One that does not
 * die copies the file, and that of the tool, to `<name>.<day>` before each day.
 */
export async function converseUntilKilled(args: string[]): Promise<void> {
  const [store, home = "", file = "", url = "", until, moment] = args;
  const last = Number(moment);
  const say = (told: Told) => writeSync(1, `${JSON.stringify(told)}\n`);
  let moments = 0;
  const gardener = await openGardener({ store: store as StoreName, home, file, url }, (event) => {
    say({ type: event.type, ...(event.type === "entry" ? { id: event.entry.id } : {}) });
    moments += 1;
    if (moments === last) process.kill(process.pid, "SIGKILL");
  });
  await converse(gardener, Number(until), (day) => {
    if (last === 0)
      for (const one of [file, looksOf(file)]) if (existsSync(one)) copyFileSync(one, `${one}.${day}`);
    say({ type: "day", day });
  });
  await gardener.session.close();
}
