/** A process that asks, says durably that it sends, prints where, and waits to be killed: `sender <home>`. */
import { writeSync } from "node:fs";
import { createSession, sentEntry } from "@espalier/engine";

const session = await createSession({ home: process.argv[2]! });
await session.appendMessages([{ role: "user", content: "What grows here?" }]);
await session.append(sentEntry(session.leafId, "gardener-1"), { durability: "fsync" });
writeSync(1, `${session.file}\n`);
setInterval(() => undefined, 1_000);
