import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, deleteSession, listSessions, openSession } from "@espalier/engine";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
/** Sessions that whoever runs this has with the Pi agent are none of its business. */
const pi = join(folder, "pi");
beforeAll(() => vi.stubEnv("PI_CODING_AGENT_DIR", pi));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const newHome = (): string => mkdtempSync(join(folder, "home-"));

async function listed(home: string, options: { subAgents?: boolean; parent?: string } = {}) {
  const ids: string[] = [];
  for await (const { id } of listSessions({ home, ...options })) ids.push(id);
  return ids.sort();
}

test("a session is found by its id from any folder, even if its own folder was moved or removed", async () => {
  const home = newHome();
  const cwd = join(folder, "garden");
  mkdirSync(cwd);
  const { id, file, ...session } = await createSession({ home, cwd }).then(async (made) => {
    await made.appendMessages([{ role: "user", content: "What grows here?" }]);
    const { id, file, context } = made;
    await made.close();
    return { id, file, context };
  });
  for (const move of [
    () => renameSync(cwd, `${cwd}-moved`),
    () => rmSync(`${cwd}-moved`, { recursive: true }),
  ]) {
    move();
    expect(await listed(home)).toEqual([id]);
    const again = await openSession(id, { home });
    expect(again).toMatchObject({ id, file });
    expect(again.context.messages).toEqual(session.context.messages);
    await again.close();
  }
});

test("after navigating back, the abandoned branch is listed by its text, and one call returns to it", async () => {
  const session = await createSession({ home: newHome() });
  await session.appendMessages([
    { role: "user", content: "Plant pears." },
    { role: "assistant", content: "Done." },
    { role: "user", content: "Now prune them." },
    { role: "assistant", content: "They are pruned." },
  ]);
  const left = session.leafId!;
  const before = session.context.messages;
  await session.navigate(session.getBranch()[1]!.id);
  await session.appendMessages([{ role: "user", content: "Plant plums instead." }]);
  const branch = session.branches().find(({ leafId }) => leafId === left);
  expect(branch).toMatchObject({
    lastUserText: "Now prune them.",
    timestamp: session.getEntry(left)!.timestamp,
  });
  await session.navigate(left);
  expect(session.context.messages).toEqual(before);
  const fork = await session.fork(left);
  await session.close();
  const forked = await openSession({ file: fork.file }, { mode: "read" });
  expect(forked.header?.parent).toEqual({ sessionId: session.id, entryId: left, kind: "fork" });
  await forked.close();
});

test("a sub-agent's run is a separate session, which does not count in its parent's length, and remains after it", async () => {
  const home = newHome();
  const parent = await createSession({ home, cwd: folder });
  const [call] = await parent.appendMessages([{ role: "user", content: "Have somebody count the pears." }]);
  const link = { sessionId: parent.id, entryId: call!.id, kind: "subagent" } as const;
  const child = await createSession({ home, cwd: folder, parent: link });
  const before = parent.log.view!.size;
  for (let tree = 1; tree <= 50; tree++)
    await child.appendMessages([{ role: "user", content: `Tree ${tree} has ${"pears ".repeat(100)}` }]);
  await child.close();
  await parent.refresh();
  expect(parent.log.view!.size).toBe(before);
  await parent.close();
  expect(await listed(home)).toEqual([parent.id]);
  expect(await listed(home, { parent: parent.id })).toEqual([child.id]);
  await deleteSession(parent.id, { home });
  expect(await listed(home)).toEqual([]);
  expect(await listed(home, { parent: parent.id })).toEqual([child.id]);
  const orphan = await openSession(child.id, { home, mode: "read" });
  expect(orphan.header?.parent).toEqual(link);
  expect(orphan.context.messages).toHaveLength(50);
  await orphan.close();
});

test("sessions are listed by their folder, and not by another folder with a similar name", async () => {
  const home = newHome();
  const own = await createSession({ home, file: join(pi, "sessions", "theirs.jsonl") });
  const beside = await createSession({ home, file: join(pi, "sessions-of-old", "ours.jsonl") });
  for (const session of [own, beside]) await session.close();
  const agents: Record<string, string> = {};
  for await (const { id, agent } of listSessions({ home, folder: pi })) agents[id] = agent;
  expect(agents).toEqual({ [own.id]: "pi", [beside.id]: "espalier" });
  rmSync(pi, { recursive: true });
});

test("sessions of Pi are found in the folder that Pi's own variable names", async () => {
  const sessions = mkdtempSync(join(folder, "pi-sessions-"));
  vi.stubEnv("PI_CODING_AGENT_SESSION_DIR", sessions);
  const home = newHome();
  const theirs = await createSession({ home, file: join(sessions, "theirs.jsonl") });
  await theirs.close();
  const agents: string[] = [];
  for await (const { agent } of listSessions({ home })) agents.push(agent);
  vi.stubEnv("PI_CODING_AGENT_SESSION_DIR", undefined);
  expect(agents).toEqual(["pi"]);
});
