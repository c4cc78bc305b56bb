// The minimum work for each task with the same tools: the same bytes are read, parsed, written or counted.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsync,
  fsyncSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { medianTime, peakMegabytes, percentile, timed, timesAtOnce } from "../lib/bench.mjs";

const BLOCK = 1 << 20;
let counter = 0;

/**
 * Memory with the alignment to which the system copies fastest: 16 bytes into a page, where it would otherwise begin,
 * copying takes twice as long.
 */
const blockToRead = () => Buffer.from(new ArrayBuffer(BLOCK + 64), 48, BLOCK);

export const tasks = {
  /**
   * Creates as many files, or rows, as sessions at the same time, each synced; then writes two lines per turn to each.
   */
  async server({ folder, address, sessions, turns, message, answer }) {
    const place = await (address ? bareTable(address) : bareFiles(folder));
    const creates = await timesAtOnce(sessions, 1, (at) => place.create(at, "a header"));
    const said = await timesAtOnce(sessions, turns, async (at) => {
      await place.append(at, JSON.stringify(message));
      await place.append(at, JSON.stringify(answer));
    });
    await place.close();
    return {
      createP99: percentile(creates.times, 99),
      turnP99: percentile(said.times, 99),
      turnsPerSecond: (sessions * turns * 1_000) / said.ms,
    };
  },

  /** Reads lines of a file, adjacent lines together, and parses them. */
  async parse({ path, spans }) {
    const runs = runsOf(spans);
    const { ms, result } = await timed(() => {
      const fd = openSync(path, "r");
      const values = [];
      let bytes = 0;
      for (const { from, to, lines } of runs) {
        const run = Buffer.allocUnsafe(to - from);
        readSync(fd, run, 0, run.length, from);
        bytes += run.length;
        for (const [start, length] of lines) {
          const at = start - from;
          values.push(JSON.parse(run.toString("utf8", at, at + length)));
        }
      }
      closeSync(fd);
      return bytes;
    });
    return { ms, bytes: result, peak: peakMegabytes() };
  },

  /** Counts newlines in blocks of 1 MB. */
  async newlines({ path }) {
    const { ms, result } = await timed(() => {
      const fd = openSync(path, "r");
      const { size } = fstatSync(fd);
      const block = blockToRead();
      let lines = 0;
      for (let offset = 0; offset < size; offset += BLOCK) {
        const part = block.subarray(0, readSync(fd, block, 0, BLOCK, offset));
        for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, at + 1)) lines++;
      }
      closeSync(fd);
      return lines;
    });
    return { ms, lines: result };
  },

  /** Makes the line and writes it, without checks. */
  async append({ folder, messages, batch, count }) {
    const fd = openSync(join(folder, "plain.jsonl"), "a");
    const appendBatch = (at) => {
      let text = "";
      for (let index = 0; index < batch; index++) text += lineOf(messages, at * batch + index);
      writeSync(fd, text);
    };
    const ms = await medianTime(count, appendBatch);
    closeSync(fd);
    return { ms };
  },

  /** Makes the line and writes it, makes JSON of the message, and appends it to the bytes of the earlier messages. */
  async request({ folder, messages, before, count }) {
    const fd = openSync(join(folder, "plain.jsonl"), "a");
    const bytesOf = (message) => Buffer.from(`${JSON.stringify(message)},`);
    const said = messages.slice(0, before).map(bytesOf);
    const ms = await medianTime(count, (at) => {
      writeSync(fd, lineOf(messages, before + at));
      said.push(bytesOf(messages[before + at]));
      return Buffer.concat(said);
    });
    closeSync(fd);
    return { ms };
  },

  /** Each caller writes its line and syncs separately. */
  async sync({ folder, messages, callers, rounds }) {
    const fd = openSync(join(folder, "synced.jsonl"), "a");
    const ms = await medianTime(rounds, (at) => {
      for (let index = 0; index < callers; index++) {
        writeSync(fd, lineOf(messages, at * callers + index));
        fdatasyncSync(fd);
      }
    });
    closeSync(fd);
    return { ms };
  },

  /** Copies a file in blocks of 1 MB and syncs it like a fork; `synced` is the time spent waiting for the disk. */
  async copy({ path, folder }) {
    const copy = join(folder, `copy-${counter++}.jsonl`);
    const from = openSync(path, "r");
    const to = openSync(copy, "w");
    const written = await timed(() => {
      const block = blockToRead();
      for (let length = readSync(from, block); length > 0; length = readSync(from, block))
        writeSync(to, block, 0, length);
    });
    const synced = await timed(() => fsyncSync(to));
    closeSync(to);
    closeSync(from);
    rmSync(copy);
    return { ms: written.ms + synced.ms, synced: synced.ms, unsynced: written.ms };
  },

  /** Reads the folder and asks the system for the size and time of every file. */
  async stat({ folder }) {
    const { ms, result } = await timed(() => {
      const names = readdirSync(folder);
      for (const name of names) statSync(join(folder, name));
      return names.length;
    });
    return { ms, sessions: result };
  },

  async grep({ files, query }) {
    const { ms, result } = await timed(() => {
      const { stdout } = spawnSync("grep", ["-c", "-i", "-F", query, ...files], {
        encoding: "utf8",
        env: { LC_ALL: "C" },
      });
      return stdout.split("\n").reduce((sum, line) => sum + Number(line.split(":").at(-1) || 0), 0);
    });
    return { ms, hits: result };
  },

  /** Reads a file in blocks, parses each line, and writes it again. */
  async rewrite({ path, out }) {
    const { ms, result } = await timed(() => {
      const from = openSync(path, "r");
      const to = openSync(out, "w");
      let rest = Buffer.alloc(0);
      let text = "";
      let lines = 0;
      for (;;) {
        const block = Buffer.allocUnsafe(rest.length + BLOCK);
        rest.copy(block);
        const read = readSync(from, block, rest.length, BLOCK, null);
        const bytes = block.subarray(0, rest.length + read);
        let start = 0;
        for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, start)) {
          text += `${JSON.stringify(JSON.parse(bytes.toString("utf8", start, at)))}\n`;
          start = at + 1;
          lines++;
        }
        if (text.length > BLOCK || read === 0) {
          writeSync(to, text);
          text = "";
        }
        if (read === 0) break;
        rest = bytes.subarray(start);
      }
      fsyncSync(to);
      closeSync(from);
      closeSync(to);
      return lines;
    });
    return { ms, lines: result };
  },

  /** Memory of an idle process. */
  async nothing() {
    return { peak: peakMegabytes() };
  },
};

const lineOf = (messages, at) => {
  const message = messages[at % messages.length];
  const entry = {
    type: "message",
    id: `${at}`,
    parentId: `${at - 1}`,
    timestamp: new Date().toISOString(),
    message,
  };
  return `${JSON.stringify(entry)}\n`;
};

/** @param {[offset: number, length: number][]} spans in file order */
function runsOf(spans) {
  const runs = [];
  for (const [start, length] of spans) {
    const last = runs.at(-1);
    // Adjacent lines are separated by one newline.
    if (last && start === last.to + 1) {
      last.to = start + length;
      last.lines.push([start, length]);
    } else runs.push({ from: start, to: start + length, lines: [[start, length]] });
  }
  return runs;
}

/** One file per session; other threads wait for the disk. */
async function bareFiles(folder) {
  const syncs = { file: promisify(fsync), data: promisify(fdatasync) };
  const files = [];
  return {
    async create(at, text) {
      files[at] = openSync(join(folder, `${at}.jsonl`), "wx+");
      writeSync(files[at], `${text}\n`);
      await syncs.file(files[at]);
      const own = openSync(folder, "r");
      await syncs.file(own);
      closeSync(own);
    },
    async append(at, text) {
      writeSync(files[at], `${text}\n`);
      await syncs.data(files[at]);
    },
    close: async () => {
      for (const file of files) closeSync(file);
    },
  };
}

/** A table with a number for each text, with as many connections as a store. */
async function bareTable(address) {
  const { poolDatabase } = await import("../.work/storePostgres.mjs");
  const url = new URL(address);
  url.search = "";
  const database = poolDatabase(`${url}`, "the bench's server");
  await database.query({
    text: "CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body text NOT NULL)",
  });
  const insert = (_, text) =>
    database.query({ name: "bare", text: "INSERT INTO bare (body) VALUES ($1)" }, [text]);
  return { create: insert, append: insert, close: () => database.close() };
}
