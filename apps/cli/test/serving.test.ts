import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { demoCopy, espalier, espalierJson, HEADER, start, temporaryFolder } from "./espalier.ts";

/** The first line that a server prints. */
async function servedAt(child: Awaited<ReturnType<typeof start>>): Promise<string> {
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return String(line);
}

test("serve prints an address that opens the session of a file, and ends with Ctrl-C", async () => {
  const file = demoCopy();
  const child = await start(["serve", file]);
  const ended = once(child, "close");
  const [url, place] = (await servedAt(child)).split("#");
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{32}\/$/);
  const page = await (await fetch(url!)).text();
  expect(page).toContain("<title>Espalier</title>");
  expect(await (await fetch(`${url}api`)).json()).toEqual({ write: false });
  const sessions = (await (await fetch(`${url}api/sessions`)).json()) as { key: string; file: string }[];
  expect(sessions.map((session) => session.file)).toEqual([file]);
  expect(place).toBe(`/s/${sessions[0]!.key}`);
  const facts = (await (await fetch(`${url}api/sessions/${sessions[0]!.key}/facts`)).json()) as object;
  expect(facts).toMatchObject({ length: 212, bytes: expect.any(Number) });
  child.kill("SIGINT");
  expect((await ended)[0]).toBe(0);
});

test("serve --json prints the address as JSON; --write lets the page change the session", async () => {
  const file = demoCopy();
  const child = await start(["serve", file, "--write", "--json"]);
  const { url } = JSON.parse(await servedAt(child)) as { url: string };
  const order = { method: "POST", headers: { "content-type": "application/json" } };
  const answer = await fetch(`${url}api/sessions/LTfrBGnUynOG/label`, {
    ...order,
    body: JSON.stringify({ id: "kpg9JT9KkzGf", label: "from the page" }),
  });
  expect(await answer.text()).toContain('"result":{"entryId":');
  child.kill("SIGTERM");
  await once(child, "close");
  const { value } = await espalierJson(["tree", file]);
  expect(value.entries.find(({ id }: { id: string }) => id === "kpg9JT9KkzGf").label).toBe("from the page");
});

test("serve takes the beginning of an id", async () => {
  const home = temporaryFolder();
  const folder = join(home, "sessions", "boats");
  mkdirSync(folder, { recursive: true });
  for (const id of ["harbour-1", "harbour-2", "jetty-1"])
    writeFileSync(join(folder, `${id}.jsonl`), `${JSON.stringify({ ...HEADER, id })}\n`);
  const env = { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") };
  const child = await start(["serve", "jet"], { env });
  const ended = once(child, "close");
  const [url, place] = (await servedAt(child)).split("#");
  const sessions = (await (await fetch(`${url}api/sessions`)).json()) as { file: string }[];
  expect(sessions.map(({ file }) => file)).toEqual([join(folder, "jetty-1.jsonl")]);
  expect(place).toBe("/s/jetty-1");
  child.kill("SIGINT");
  await ended;
  expect(await espalier(["serve", "harbour"], { env })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("2 sessions have an id that begins with harbour: harbour-"),
  });
  expect(await espalier(["serve", "quay"], { env })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("quay"),
  });
});

test("serve and mcp report a port that another program uses", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const stderr = `Port ${port} cannot be used; choose another one.\n`;
  expect(await espalier(["serve", "--port", `${port}`])).toMatchObject({ code: 1, stderr });
  const mcp = await espalier(["mcp", "--http", "--no-import", "--port", `${port}`]);
  expect(mcp).toMatchObject({ code: 2, stderr });
  other.close();
});

test("serve reports a bad place or port", async () => {
  expect(await espalier(["serve", "/nowhere/at/all"])).toMatchObject({ code: 1, stdout: "" });
  expect(await espalier(["serve", demoCopy(), "--port", "x"])).toMatchObject({ code: 2 });
});

test("export --format html writes the page with the session inside", async () => {
  const { stdout, code } = await espalier(["export", demoCopy(), "--format", "html", "--redact"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/<script type="application\/octet-stream" id="session">[\w+/=]{10000,}<\/script>/);
  expect(stdout).toContain("connect-src 'none'");
});
