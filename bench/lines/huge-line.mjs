import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { atMost, fasterThan, ratio } from "../lib/line.mjs";

const MEGABYTE = 1 << 20;

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "huge-line",
  title: "One line of hundreds of megabytes",
  async run(bench) {
    const folder = bench.scratch();
    const open = async (megabytes, contenders) => {
      const path = join(folder, `line-${megabytes}.jsonl`);
      writeHugeLine(path, bench.isSmoke ? 1 : megabytes);
      const each = Object.fromEntries(contenders.map((name) => [name, ["open", { path }]]));
      return bench.alternate(each, { rounds: 1, fresh: true });
    };
    const small = await open(50, ["espalier"]);
    const large = await open(200, ["espalier", "pi"]);
    const huge = await open(600, ["espalier"]);
    return [
      {
        work: "200 MB",
        unit: "ms",
        figures: { espalier: large.espalier?.ms, pi: large.pi?.ms },
        goals: [
          fasterThan("Pi", large.pi?.ms, large.espalier?.ms, 20),
          atMost("linear: 200 MB ≤ 6 × of 50 MB", ratio(large.espalier?.ms, small.espalier?.ms), 6),
        ],
      },
      {
        work: "600 MB, longer than any text can be: the session opens, and the line is named as damaged",
        unit: "ms",
        figures: { espalier: huge.espalier?.ms },
        goals: [atMost("opens, in ≤ 6 × of 200 MB", ratio(huge.espalier?.ms, large.espalier?.ms), 6)],
      },
    ];
  },
};

/** A session of a prompt, a result of so many megabytes, and an answer. */
function writeHugeLine(path, megabytes) {
  const fd = openSync(path, "w");
  const head = (id, parentId) =>
    `{"type":"message","id":"${id}","parentId":${JSON.stringify(parentId)},"timestamp":"2026-01-05T09:00:00.000Z","message":`;
  const line = (id, parentId, message) => writeSync(fd, `${head(id, parentId)}${JSON.stringify(message)}}\n`);
  writeSync(
    fd,
    '{"type":"session","version":3,"id":"huge","timestamp":"2026-01-05T09:00:00.000Z","cwd":"/"}\n',
  );
  line("a0000000", null, { role: "user", content: "Show me all of it.", timestamp: 1 });
  writeSync(fd, `${head("b0000000", "a0000000")}{"role":"user","timestamp":1,"content":"`);
  const block = Buffer.alloc(MEGABYTE, "the cache keeps what was read, line by line. ");
  for (let at = 0; at < megabytes; at++) writeSync(fd, block);
  writeSync(fd, '"}}\n');
  line("c0000000", "b0000000", { role: "user", content: "And now?", timestamp: 1 });
  closeSync(fd);
}
