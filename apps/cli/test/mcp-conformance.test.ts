// The conformance program of the Model Context Protocol, which asks servers over HTTP. It needs a newer Node than this
// project. Most of its scenarios call a demonstration's tools by name: those are asked of a demonstration, served by the
// code that serves `espalier mcp`.
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { type HttpServer, serveOverHttp } from "../src/mcp/server.ts";
import { start, temporaryFolder } from "./espalier.ts";
import { demonstrationHandler, statelessDemonstrationHandler } from "./mcp-demonstration.ts";

/** The newest version: those before it know the protocol of 2025 alone. */
const PACKAGES = ["node@24", "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

const npx = (...given: string[]) => {
  const packages = PACKAGES.flatMap((name) => ["-p", name]);
  return promisify(execFile)("npx", ["--yes", ...packages, ...given], {
    timeout: 280_000,
    maxBuffer: 1 << 26,
  });
};

/** Server scenarios that the program lists, with the revisions of the protocol that each is for, or `extension`. */
async function listScenarios(): Promise<[name: string, revisions: string[]][]> {
  const { stdout } = await npx("conformance", "list");
  const [, listed = ""] = stdout.split(/^Server scenarios.*$/m);
  const [servers = ""] = listed.split(/^Client scenarios/m);
  return [...servers.matchAll(/^ {2}- (\S+) \[(.+)\]$/gm)].map(([, name, tags]) => [name!, tags!.split(",")]);
}

/** Empty where npx cannot get the program or Node 24. */
const scenarios = await listScenarios().catch(() => []);
const whySkipped = scenarios.length > 0 ? "" : " (skipped: npx cannot get the program or Node 24 here)";

const namesFor = (revision: string): string[] =>
  scenarios.flatMap(([name, revisions]) => (revisions.includes(revision) ? [name] : [])).sort();

/**
 * Runs scenarios. Returns the names of those that passed with at least one check, and of all others with their checks that
 * failed: none where all checks were skipped.
 */
async function judge(url: string, ...given: string[]) {
  const folder = temporaryFolder();
  const run = await npx("conformance", "server", "--url", url, "--output-dir", folder, ...given).catch(
    (error: { stdout?: unknown }) => {
      // It exits with 1 where a check fails.
      if (typeof error.stdout !== "string") throw error;
      return { stdout: error.stdout };
    },
  );
  const results = readdirSync(folder).map((name) => {
    const [, scenario] = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name)!;
    const text = readFileSync(join(folder, name, "checks.json"), "utf8");
    const checks = JSON.parse(text) as { id: string; status: string }[];
    const withStatus = (status: string) =>
      checks.flatMap((check) => (check.status === status ? [check.id] : []));
    return { scenario: scenario!, passed: withStatus("SUCCESS").length, failed: withStatus("FAILURE") };
  });
  expect(results.length, run.stdout.slice(-2_000)).toBeGreaterThan(0);
  const isPassed = ({ passed, failed }: (typeof results)[number]) => passed > 0 && failed.length === 0;
  return {
    passed: results.flatMap((each) => (isPassed(each) ? [each.scenario] : [])).sort(),
    others: Object.fromEntries(
      results.flatMap((each) => (isPassed(each) ? [] : [[each.scenario, each.failed] as const])),
    ),
  };
}

const everyOf = (revision: string): string[] => ["--suite", "all", "--spec-version", revision];

const servers: HttpServer[] = [];
afterAll(() => Promise.all(servers.map((server) => server.close())));

async function serve(handler: Parameters<typeof serveOverHttp>[0]): Promise<string> {
  const server = await serveOverHttp(handler);
  servers.push(server);
  return server.url;
}

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/** An extension that the SDK does not have: the program runs its scenarios "for visibility", and scores none of them. */
const isOfTasks = (name: string): boolean => name.startsWith("tasks-");

describe.skipIf(scenarios.length === 0)(`the official conformance program${whySkipped}`, () => {
  test("every server scenario of the program is covered below", () => {
    const run = [...REVISIONS, "extension"].flatMap(namesFor);
    expect([...new Set(run)].sort()).toEqual(scenarios.map(([name]) => name).sort());
    expect(run.length).toBeGreaterThan(60);
  });

  test.each(REVISIONS)("passes every scenario of %s", { timeout: 600_000 }, async (revision) => {
    const { passed, others } = await judge(await serve(demonstrationHandler()), ...everyOf(revision));
    expect(others).toEqual({});
    expect(passed).toEqual(namesFor(revision));
  });

  test("passes the scenarios of extensions, apart from tasks", { timeout: 600_000 }, async () => {
    const url = await serve(demonstrationHandler());
    const names = namesFor("extension").filter((name) => !isOfTasks(name));
    expect(names).not.toEqual([]);
    for (const name of names) expect((await judge(url, "--scenario", name)).passed).toEqual([name]);
  });

  test("without sessions, fails only scenarios of 2025 in which a call asks the client", {
    timeout: 600_000,
  }, async () => {
    const url = await serve(statelessDemonstrationHandler());
    const { passed, others } = await judge(url, ...everyOf("2025-11-25"));
    const needSessions = [
      ...["elicitation-sep1034-defaults", "elicitation-sep1330-enums"],
      ...["tools-call-elicitation", "tools-call-sampling"],
      // All their checks are skipped: there is no session to end, and no stream to come back to.
      ...["server-session-lifecycle", "server-sse-polling", "server-sse-multiple-streams"],
    ];
    expect(Object.keys(others).sort()).toEqual(needSessions.sort());
    expect(passed).toEqual(namesFor("2025-11-25").filter((name) => !needSessions.includes(name)));
  });
});

/** Scenarios that call nothing of a demonstration by name, so that `espalier mcp` can pass them. */
const OURS: Readonly<Record<string, readonly string[]>> = {
  "2025-06-18": ["server-initialize", "ping"],
  "2025-11-25": ["server-initialize", "ping", "dns-rebinding-protection"],
  "2026-07-28": [
    ...["caching", "dns-rebinding-protection", "http-header-validation", "sep-2164-resource-not-found"],
    ...["input-required-result-unsupported-methods", "server-sse-multiple-streams"],
  ],
};

/** Checks of `server-stateless` that call tools of a demonstration. */
const CALLS_A_DEMONSTRATION = [
  "sep-2575-server-rejects-undeclared-capability",
  "sep-2575-missing-capability-http-400",
  "sep-2575-http-server-no-independent-requests-on-stream",
  "sep-2575-server-no-log-without-loglevel",
];

describe.skipIf(scenarios.length === 0)(`espalier mcp with the same program${whySkipped}`, () => {
  test.each(Object.keys(OURS))(
    "passes all scenarios that need no demonstration tools, for %s",
    { timeout: 600_000 },
    async (revision) => {
      const child = await start(["mcp", "--http", "--json", "--no-import"], { cwd: temporaryFolder() });
      try {
        const line = await new Promise<string>((resolve) =>
          child.stdout.once("data", (data) => resolve(String(data))),
        );
        const { passed, others } = await judge(JSON.parse(line).url, ...everyOf(revision));
        const lists = ["tools-list", "prompts-list", "resources-list"];
        expect(passed).toEqual(expect.arrayContaining([...lists, ...OURS[revision]!]));
        expect(Object.values(others).flat()).not.toContain("wire-schema-valid");
        if (revision === "2026-07-28") expect(others["server-stateless"]).toEqual(CALLS_A_DEMONSTRATION);
      } finally {
        child.kill("SIGTERM");
      }
    },
  );
});
