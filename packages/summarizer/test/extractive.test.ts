import { EspalierError } from "@espalier/jsonl-stream";
import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer, type SummaryPurpose, validateSummary } from "@espalier/summarizer";
import { describe, expect, it } from "vitest";
import { assistant, user } from "./build-messages.ts";
import { ask, edit, HISTORY_HEADINGS, invoiceSession, run, section, step } from "./extractive-sessions.ts";

const WHOLE = [
  "Goal",
  "Constraints & Preferences",
  "Progress",
  "Key Decisions",
  "Next Steps",
  "Critical Context",
];

describe("what the summary of a session says", () => {
  it("quotes the first and the newest request, and rules in the user's words", async () => {
    const { text } = await ask(invoiceSession());
    expect(section(text, "## Goal")).toContain(
      'First request: "Our invoice export rounds wrongly: 0.125 EUR becomes 0.12.',
    );
    expect(section(text, "## Goal")).toContain(
      'Newest request: "Good. Now write the export as CSV to exports/invoices.csv, separator must be a semicolon"',
    );
    expect(text).toContain("Never use floating point for money, and don't add dependencies.");
  });

  it("quotes a plan that is the whole first request on several lines while there is room", async () => {
    const steps = Array.from({ length: 24 }, (_, at) => `Station ${at} gets a timeout in gauge${at}.c.`);
    const plan = `Implement this plan. ${steps.join(" ")} Then run the tests of the weir.`;
    const source = "static int read_level(void) { return adc_read(LEVEL) * SCALE; }\n".repeat(100);
    const { text } = await ask([user(plan), ...edit("src/gauge0.c", source)]);
    const goal = section(text, "## Goal").split("\n");
    expect(goal[0]).toMatch(/^- First request: "Implement this plan\. Station 0 .*\."$/);
    for (const line of goal.slice(1)) expect(line).toMatch(/^- It goes on: "Station \d+ .*"$/);
    const said = goal.map((line) => /"(.*)"$/.exec(line)![1]).join(" ");
    expect(said).toBe(plan);
    expect(Math.max(...text.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(600);
  });

  it("tells what was done with how it ended, and what is still going on", async () => {
    const { text } = await ask(invoiceSession());
    const done = section(text, "### Done");
    expect(done).toContain("changed `round-amount.ts`; `npm test -- billing` succeeded");
    expect(section(text, "### In Progress")).toContain("changed `write-csv.ts`");
    expect(section(text, "## Next Steps")).toContain("next I will import InvoiceRow");
  });

  it("tells each of many turns by its request, and the newest ones with what came of them", async () => {
    const topics = Array.from(
      { length: 45 },
      (_, at) => `Station ${at} sends its level twice; look at gauge${at}.c.`,
    );
    const answer =
      "The sender repeats a frame when no acknowledgement comes, because its timer is shorter than the line.";
    const { text } = await ask(
      topics.flatMap((topic, at) => [
        user(`${topic} ${"The log has more of it. ".repeat(12)}`),
        ...edit(`src/gauge${at}.c`, `int repeat${at};`),
        assistant(`${answer} Station ${at} was the ${at}th of them.`),
      ]),
    );
    const done = section(text, "### Done").split("\n");
    for (const topic of topics) expect(done.join()).toContain(`"${topic.slice(0, 30)}`);
    expect(done[10]).toMatch(/^- "Station 10 sends [^"]*"$/);
    expect(done.at(-1)).toContain("because its timer is shorter than the line");
    expect(text.length).toBeLessThanOrEqual(8_000);
  });

  it("tells the commit of each of many turns beside its request, also after an update", async () => {
    const turns = Array.from({ length: 40 }, (_, at) => [
      user(`Gauge ${at} drifts. ${"It was checked by hand this week. ".repeat(10)}`),
      ...edit(`src/gauge${at}.c`, `int offset${at};`),
      ...run(`make test && git commit -qam "Correct the drift of gauge ${at}" && git push`, "ok"),
      assistant("It no longer drifts."),
    ]);
    const broken = [
      user("Gauge 50 drifts too"),
      ...run('git commit -qam "Correct gauge 50"', "ok"),
      ...run("make test", "gauge50.c:4: error: unknown offset\nexit code 2", true),
      assistant("The test fails."),
    ];
    const { text } = await ask([...turns.flat(), ...broken]);
    const done = section(text, "### Done");
    for (const at of turns.keys()) expect(done).toContain(`"Gauge ${at} drifts`);
    expect(done.split("committed").length).toBeGreaterThan(20);
    const brief = /^- "(Gauge \d+) drifts[^"]*" → committed "[^"]+"$/m.exec(text)!;
    expect(done).toContain(brief[0]);
    expect(section(text, "### Done")).toContain('"Gauge 50 drifts too" → `make test` failed');
    const later = [user("Now the pumps"), ...edit("src/pump.c", "int pump;"), assistant("They run.")];
    const update = await ask(later, { previousSummary: text });
    expect(update.text).toContain(brief[0]);
  });

  it("keeps a flag that the agent typed once, and no name that only outputs have", async () => {
    const later = Array.from({ length: 30 }, (_, at) =>
      edit(`src/part-${at}.ts`, `export const part${at} = ${at};`),
    ).flat();
    const { text } = await ask([
      user("Rebuild the index of the shop"),
      ...run("npm run index --rebuild-shards --max-age 30", "shardCounter raised, oldIndexName dropped"),
      ...later,
    ]);
    expect(text).toContain("--max-age");
    expect(text).not.toContain("oldIndexName");
  });

  it("quotes an answer of one very long sentence instead of saying that there was none", async () => {
    const { text } = await ask([
      user("List the carriers"),
      assistant(
        `The carriers are ${Array.from({ length: 80 }, (_, at) => `carrier number ${at}`).join(", ")}.`,
      ),
      user("Now explain the invoices"),
      assistant("They are written nightly."),
    ]);
    expect(text).toMatch(/"List the carriers" → "…?(?:The carriers|carrier number)/);
    expect(text).not.toContain("no answer");
  });

  it("reads the line behind a notification of a task as no request", async () => {
    const { text } = await ask([
      user("Make the slow tests parallel."),
      ...edit("test/slow.test.ts", "parallel"),
      user(
        "<task-notification>\n<status>completed</status>\n</task-notification>\nFull transcript available at: /home/mara/tasks/ab7e996.output",
      ),
      assistant("The tests take 19 s now."),
    ]);
    expect(section(text, "## Goal")).toBe('- First request: "Make the slow tests parallel."');
    expect(text).not.toContain("Full transcript");
  });

  it("lists no temporary file as a change, and no first line of a loop as a command", async () => {
    const { text } = await ask([
      user("Why are the tests slow?"),
      ...step("", "write", { path: "/tmp/times.json", content: "[]" }, "Wrote /tmp/times.json"),
      ...run("for f in test/*.ts; do\n  node $f\ndone", "ok"),
      ...run("npm run times -- --all", "ok"),
      assistant("They share one lock."),
    ]);
    expect(text).not.toContain("changed `times.json`");
    expect(text).not.toMatch(/Commands: .*for f in/);
    expect(text).toMatch(/`npm run times -- --all`/);
  });

  it("quotes no announced change as a decision, unless the agent gives its reason", async () => {
    const { text } = await ask([
      user("Show the branches."),
      assistant("Now let me fix the list so the command is in the root.", []),
      ...edit("root.go", "list"),
      assistant("Let me compare with the merge base, because the tip has moved since then."),
    ]);
    expect(text).not.toContain("let me fix the list");
    expect(section(text, "## Key Decisions") + section(text, "### Done")).toContain(
      "because the tip has moved",
    );
  });

  it("leaves out the frame that an agent draws around a text", async () => {
    const { text } = await ask([
      user("How does tmux differ from a plain terminal?"),
      assistant(
        "`★ Insight ─────────────────`\nSessions persist because a server owns them.\n`─────────────────`",
      ),
      user("Then use it."),
      assistant("It is set up."),
    ]);
    expect(text).toContain("Sessions persist because a server owns them.");
    expect(text).not.toMatch(/─|Insight/);
  });

  it("quotes what a heading negates together with the heading", async () => {
    const { text } = await ask([
      user("What does the overlap check decide, and what not?"),
      assistant(
        "I traced it.\n\n## What It Is NOT Used For\n\nThe carry-forward list is fixed by the subtraction of files.\n\n## Why\n\nThe check was added because commits of others were counted.",
      ),
      user("Good. Write that down in the guide."),
      ...edit("docs/guide.md", "The overlap check"),
    ]);
    expect(text).toContain(
      "What It Is NOT Used For: The carry-forward list is fixed by the subtraction of files.",
    );
  });

  it("quotes an emphasized line that negates something, also as the last line of an answer", async () => {
    const { text } = await ask([
      user("Does the export still fail?"),
      assistant("The export was fixed by the new queue.\n\n**The import has not failed since then**"),
      user("And the import?"),
      assistant("**Nothing failed, not even once.**\n\nThe import was changed on Monday."),
    ]);
    expect(text).toContain("The import has not failed since then");
    expect(text).toContain("Nothing failed, not even once. The import was changed on Monday.");
  });

  it.each(["is definitely not", "definitely isnt"])(
    'keeps "%s" with the words it negates when answers are shortened',
    async (negation) => {
      const names = Array.from({ length: 30 }, (_, at) => `carrierZone${at}`);
      const { text } = await ask(
        names.flatMap((name) => [
          user(`Explain ${name} in the shipping module`),
          assistant(
            `It was found that the shipping module has an older part of ${name} in there which ${negation} used for quarterly refundTotals${name} of closedOrders${name} because the ${name} was replaced.`,
          ),
        ]),
      );
      const quoted = [...text.matchAll(/(.{0,12})(?:used )?for quarterly refundTotals/g)];
      expect(quoted.length).toBeGreaterThan(3);
      for (const [, before] of quoted) expect(before).toMatch(/(?:not|isnt) (?:used )?$/);
    },
  );

  it("reports an error nobody resolved, and of one that was resolved, what helped", async () => {
    const { text } = await ask(invoiceSession());
    const blocked = section(text, "### Blocked");
    expect(blocked).toContain(
      "`npm run lint` failed: `src/export/write-csv.ts(3,5): error TS2304: Cannot find name 'InvoiceRow'.`",
    );
    expect(blocked).toContain(
      "`npm test -- billing` had failed: `AssertionError: expected 12n to equal 13n`; `round-amount.ts` was changed, then it succeeded",
    );
  });

  it("leaves out calls that were never made, commands that check nothing, and settled errors without a reason", async () => {
    const { text } = await ask([
      user("Make the release script work on the new server."),
      ...run("npm run build", "<tool_use_error>Sibling tool call errored</tool_use_error>", true),
      ...run("npm run deploy", "The user doesn't want to proceed with this tool use.", true),
      ...run("npm run check", "FAIL\n\nCommand exited with code 1", true),
      ...edit("scripts/release.sh", "set -eu"),
      ...run("npm run check", "ok"),
      ...run("chmod +x scripts/release.sh", ""),
      assistant("The release script works on the new server."),
    ]);
    expect(section(text, "### Done")).toContain("`npm run check` succeeded");
    expect(section(text, "### Blocked")).toBe("(none)");
  });

  it("names the file of an output that was too long for its result", async () => {
    for (const said of [
      "<persisted-output>\nOutput too large (122.6KB). Full output saved to: /home/ada/results/call-7.txt\n\nPreview:",
      `${"line\n".repeat(400)}[Showing lines 1-400 of 9000. Full output: /home/ada/results/call-7.txt]`,
    ]) {
      const { text } = await ask([
        user("Look for the slow query in the log of yesterday."),
        ...run("npm run log", said),
        assistant("It is the list of invoices."),
      ]);
      expect(section(text, "## Critical Context")).toContain(
        '"whole output of `npm run log`: /home/ada/results/call-7.txt"',
      );
    }
  });

  it("repeats a decision with its reason", async () => {
    const { text } = await ask(invoiceSession());
    expect(section(text, "## Key Decisions")).toContain(
      "I decided on bigint minor units instead of a decimal library, because no dependency may be added.",
    );
  });

  it("names the files that were changed and used, each with the names written of it", async () => {
    const { text } = await ask(invoiceSession());
    const critical = section(text, "## Critical Context");
    expect(critical).toContain("- `src/billing/round-amount.ts` (changed 2×): roundMinorUnits");
    expect(critical).toContain("- `src/export/write-csv.ts` (created, changed 1×): InvoiceRow");
    expect(text).toContain("exports/invoices.csv");
  });

  it("names twenty changed files, the newest ones with their names", async () => {
    const paths = Array.from({ length: 20 }, (_, at) => `/srv/harbour/src/stations/station-${at}.ts`);
    const { text } = await ask([
      user("Give every station a timeout."),
      ...paths.flatMap((path, at) => edit(path, `export const stationTimeout${at} = ${at};`)),
      assistant("All stations have one."),
    ]);
    const critical = section(text, "## Critical Context");
    for (const path of paths) expect(critical).toContain(`\`${path}\``);
    expect(critical).toContain("- `/srv/harbour/src/stations/station-19.ts` (changed 1×): stationTimeout19");
    expect(critical).toMatch(/^- Also changed: .*station-0\.ts/m);
    for (const line of critical.split("\n")) expect(line.length).toBeLessThanOrEqual(400);
  });

  it("names commits, branches, pull requests and addresses with the words before them", async () => {
    const { text } = await ask([
      user("Push the fix of the export, please."),
      ...step(
        "Pushed as commit 4f1c2ab on branch fix/rounding; the pull request is #412.",
        "bash",
        { command: "make preview" },
        "ok",
      ),
      ...step(
        "The preview runs at https://preview.example/412 and its database on localhost:5433.",
        "bash",
        { command: "make check" },
        "ok",
      ),
      assistant("All of it is up."),
    ]);
    for (const handle of ["4f1c2ab", "fix/rounding", "#412", "https://preview.example/412", "localhost:5433"])
      expect(text).toContain(handle);
    expect(section(text, "## Critical Context")).toMatch(/Handles: .*"Pushed as commit 4f1c2ab"/);
  });

  it("tells what a program of tool calls changed and ran", async () => {
    const patch = "*** Begin Patch\n*** Update File: src/parse-rows.ts\n@@\n-a\n+b\n*** End Patch";
    const { text } = await ask([
      user("Mend the parser of rows, please."),
      ...step("", "exec", { input: `await tools.apply_patch(${JSON.stringify(patch)});` }, "Done!"),
      ...step(
        "",
        "exec",
        { input: 'text(await tools.exec_command({"cmd":"npm test -- rows"}))' },
        "1 passed",
      ),
      assistant("The parser is mended."),
    ]);
    const done = section(text, "### Done");
    expect(done).toContain("changed `parse-rows.ts`");
    expect(done).toContain("`npm test -- rows` succeeded");
  });

  it("counts a file as changed only where a call changes it", async () => {
    const { text } = await ask([
      user("Look after the release of the package, please."),
      ...step("", "deploy_status", { path: "deploy/plan.yaml" }, "ok"),
      ...step("", "bash", { command: "npm i left@>2.0.0 right@^3.1.0" }, "added 1 package"),
      ...step("", "bash", { command: "pip install 'tool>2.0.0'" }, "ok"),
      assistant("It is released."),
    ]);
    expect(text).not.toMatch(/changed[^\n]*plan\.yaml/);
    expect(text).not.toMatch(/changed[^\n]*`2\.0\.0`/);
    expect(text).not.toMatch(/`2\.0\.0` \(/);
  });

  it("takes an interruption and a command to the agent for no request, no rule and no goal", async () => {
    for (const said of [
      "[Request interrupted by user]",
      "[Request interrupted by user for tool use]",
      "/mode",
      "/mode never ask me again",
      "/model opus",
    ]) {
      const { text } = await ask([
        user("Write the report of the quarter as a table."),
        assistant("It is written."),
        user(said),
        assistant("Yes."),
        user(`${said}\nNow make it shorter, without the totals.`),
      ]);
      expect(text).not.toContain(said);
      expect(section(text, "## Goal")).toContain(
        'Newest request: "Now make it shorter, without the totals."',
      );
    }
  });

  it("takes a merge that was committed by hand for done", async () => {
    const talk = Array.from({ length: 12 }, (_, at) => [
      user(`Question ${at} about it?`),
      assistant("Answer."),
    ]).flat();
    const conflict = "CONFLICT (content): Merge conflict in a.ts\nerror: could not apply\nexit code 1";
    const merge = step("", "bash", { command: "git merge feature" }, conflict, true);
    const commit = step(
      "",
      "bash",
      { command: 'git add -A && git commit -m "Merge feature"' },
      "[main 1] Merge",
    );
    const ended = await ask([
      user("Merge the feature branch."),
      ...merge,
      ...commit,
      assistant("Merged."),
      ...talk,
    ]);
    expect(section(ended.text, "### Blocked")).toMatch(
      /^- `git merge feature` had failed: .*`git add -A && git commit .*` succeeded$/,
    );
    const open = await ask([user("Merge the feature branch."), ...merge, assistant("It failed."), ...talk]);
    expect(section(open.text, "### Blocked")).toContain(
      "`git merge feature` failed: `error: could not apply`",
    );
  });

  it("takes the task list as it was last written", async () => {
    const todos = (second: string) => [
      { content: "Parse the header", status: "completed" },
      { content: "Stream the rows", status: second },
      { content: "Write the docs", status: "pending" },
    ];
    const { text } = await ask([
      user("Import the old archive, please."),
      ...step("", "TodoWrite", { todos: todos("pending") }, "ok"),
      ...step("", "TodoWrite", { todos: todos("in_progress") }, "ok"),
    ]);
    expect(section(text, "### Done")).toContain('Task done: "Parse the header"');
    expect(section(text, "### In Progress")).toContain('Task under way: "Stream the rows"');
    expect(section(text, "## Next Steps")).toContain('Task open: "Write the docs"');
  });

  it("says that the newest request was answered, and what the agent asked", async () => {
    const { text } = await ask([
      user("Which port does the server use?"),
      assistant("It listens on localhost:8443. Shall I change it to 9443?"),
    ]);
    expect(section(text, "## Next Steps")).toContain(
      'was answered; the answer closed with: "Shall I change it to 9443?"',
    );
    expect(section(text, "### In Progress")).toBe("(none)");
  });

  it("says what the agent committed after the sentence at which it was", async () => {
    const work = [
      user("Reject cut frames"),
      ...step("First a test, then the fix.", "write", { path: "test/frames.c", content: "cut();" }, "ok"),
      ...edit("src/frames.c", "if (cut) return;"),
      ...run('git commit -qam "Reject cut frames"', "ok"),
    ];
    const next = async (messages: ContextMessage[]) => section((await ask(messages)).text, "## Next Steps");
    const at = '- The agent was at: "First a test, then the fix."';
    expect(await next(work)).toBe(`${at}; then it committed "Reject cut frames"`);
    expect(await next(work.slice(0, -2))).toBe(`${at}; 2 calls followed`);
    expect(await next(work.slice(0, -4))).toBe(at);
    expect(await next([...work, ...step("Now the fuzzer.", "bash", { command: "make fuzz" }, "ok")])).toBe(
      '- The agent was at: "Now the fuzzer."',
    );
  });

  it.each([
    [{ old_string: "a\nb\nc", new_string: "a\nd" }, '+1 −2 lines: "d"'],
    [{ oldText: "a\nb", newText: "a" }, '−1 lines: "b"'],
    [{ edits: [{ oldText: "a", newText: "a\n\n  b\n" }] }, '+1 lines: "b"'],
  ])("says what a call in progress changed: %j", async (change, told) => {
    const { text } = await ask([
      user("Shorten the list"),
      ...step("", "edit", { path: "src/list.ts", ...change }, "Successfully replaced text"),
    ]);
    expect(section(text, "### In Progress")).toContain(`- Called: \`edit src/list.ts\` → ${told}`);
  });

  it("takes no line of source code for an error, and no number for its reason", async () => {
    const { text } = await ask([
      user("Where is the list tested?"),
      ...run("git show HEAD:list_test.go && make", '\tt.Error("no list")\nok'),
      ...run("make check", "0", true),
      assistant("In list_test.go."),
    ]);
    expect(section(text, "### Blocked")).toBe("- `make check` failed");
  });

  it("tells the newest commit of a turn with a hundred commands", async () => {
    const commands = Array.from({ length: 100 }, (_, at) => run(`make part${at}`, "ok")).flat();
    const { text } = await ask([
      user("Build all parts"),
      ...commands,
      ...run('git commit -qam "Build all parts"', "ok"),
      assistant("They are built."),
    ]);
    expect(section(text, "### Done")).toContain('committed "Build all parts"');
  });

  it("knows the tools of other agents: patches, commands as lists, file verbs, line numbers in outputs", async () => {
    const patch =
      "*** Begin Patch\n*** Update File: lib/queue.py\n@@\n-a\n+b\n*** Add File: lib/drain.py\n+c\n*** End Patch";
    const { text } = await ask([
      user("Make the queue drain on exit"),
      ...step(
        "",
        "shell",
        { command: ["bash", "-lc", "sed -n '1,80p' lib/queue.py"] },
        "    12→class WorkQueue:\n    13→    def drain_within(self, seconds):",
      ),
      ...step("", "shell", { command: ["apply_patch", patch] }, "Success"),
      ...step(
        "",
        "str_replace_based_edit_tool",
        { command: "create", path: "/srv/app/hooks.py", file_text: "def on_exit(): ..." },
        "ok",
      ),
      ...step(
        "",
        "Bash",
        { command: "cd /srv/app && python -m pytest -q" },
        "E   AssertionError: left 3 in queue\n1 failed",
        true,
      ),
    ]);
    const critical = section(text, "## Critical Context");
    expect(critical).toContain("`lib/queue.py` (changed 1×)");
    expect(critical).toContain("`lib/drain.py` (changed 1×)");
    expect(critical).toContain("`/srv/app/hooks.py` (created, changed 1×)");
    expect(section(text, "### Blocked")).toContain(
      "python -m pytest -q` failed: `E AssertionError: left 3 in queue`",
    );
  });

  it("keeps the user's language in what it quotes", async () => {
    const { text } = await ask([
      user("请修复 src/login.ts 里的登录超时。不要改数据库结构，必须保留旧的接口。"),
      ...edit("src/login.ts", "const timeout = 30;"),
      assistant("已修复：登录超时改为 30 秒。"),
      user("Bitte niemals auf main pushen, sondern immer über einen Merge Request"),
    ]);
    expect(text).toContain("请修复 src/login.ts 里的登录超时。");
    expect(text).toContain("不要改数据库结构，必须保留旧的接口。");
    expect(text).toContain("Bitte niemals auf main pushen, sondern immer über einen Merge Request");
  });

  it.each([
    [
      "Portuguese",
      "Corrija o tempo limite em src/login.ts. Não altere o banco de dados.",
      "Agora rode os testes.",
    ],
    [
      "Korean",
      "src/login.ts 의 로그인 시간 초과를 고쳐 주세요. 데이터베이스는 절대 바꾸지 마세요.",
      "이제 테스트를 실행하세요.",
    ],
    [
      "Spanish",
      "Arregla el tiempo de espera en src/login.ts. No cambies la base de datos.",
      "Ahora ejecuta las pruebas.",
    ],
  ])(
    "quotes the requests of somebody who writes %s as they were written",
    async (_language, first, newest) => {
      const { text } = await ask([user(first), ...edit("src/login.ts", "const timeout = 30;"), user(newest)]);
      expect(section(text, "## Goal")).toBe(`- First request: "${first}"\n- Newest request: "${newest}"`);
    },
  );

  it("passes over what programs put into a user's message, and bare slash commands", async () => {
    const { text } = await ask([
      user("<environment_context>\n  <cwd>/home/me</cwd>\n</environment_context>"),
      user("/model"),
      user("<system-reminder>Never say hello.</system-reminder>Rename the flag --dry to --dry-run"),
    ]);
    expect(section(text, "## Goal")).toBe('- First request: "Rename the flag --dry to --dry-run"');
    expect(text).not.toContain("Never say hello");
  });

  it("puts first what the user asks it to attend to", async () => {
    const messages = Array.from({ length: 60 }, (_, index) => [
      user(`Step ${index}: adjust src/module-${index}/handler.ts`),
      ...edit(
        `src/module-${index}/handler.ts`,
        `function handleRequest${index}() { return loadConfig${index}(); }`,
      ),
      assistant(`Adjusted handleRequest${index}.`),
    ]).flat();
    const plain = await ask(messages, { maxOutputTokens: 500 });
    const focused = await ask(messages, {
      maxOutputTokens: 500,
      customInstructions: "Focus on handleRequest3 only",
    });
    expect(plain.text).not.toMatch(/handleRequest3\b/);
    expect(focused.text).toMatch(/handleRequest3\b/);
  });
});

describe("the shape of a summary", () => {
  const shapes: [SummaryPurpose, string[]][] = [
    ["history", WHOLE],
    ["branch", WHOLE],
    ["merge", WHOLE],
    ["chunk", []],
    ["combine", WHOLE],
    ["turn-prefix", ["Original Request", "Early Progress", "Context for Suffix"]],
    ["branch", ["What was tried", "Failed attempts", "Files", "Weather"]],
  ];
  it.each(shapes)("has every section asked for, none of them empty: %s %j", async (purpose, sections) => {
    for (const messages of [invoiceSession(), []]) {
      const answer = await ask(messages, { purpose, sections });
      validateSummary(answer, { sections });
      expect(answer.text).not.toMatch(/^#+ .*\n+(?=## |$(?![\s\S]))/m);
    }
  });

  it("tells the request of a turn that was cut, verbatim", async () => {
    const sections = ["Original Request", "Early Progress", "Context for Suffix"];
    const { text } = await ask(invoiceSession().slice(8), { purpose: "turn-prefix", sections });
    expect(section(text, "## Original Request")).toContain("separator must be a semicolon");
    expect(section(text, "## Early Progress")).toContain("`write-csv.ts`");
    expect(section(text, "## Context for Suffix")).toContain(
      "`src/export/write-csv.ts` (created, changed 1×): InvoiceRow",
    );
  });

  it("is what every compaction needs, and costs nothing", async () => {
    const summarizer = extractiveSummarizer();
    expect(summarizer).toMatchObject({
      name: "extractive",
      contextWindow: Number.POSITIVE_INFINITY,
      maxOutputTokens: 2_000,
    });
    const answer = await ask(invoiceSession());
    expect(answer).toEqual({
      text: expect.any(String),
      stopReason: "stop",
      model: { provider: "espalier", modelId: "extractive" },
    });
    const headings = answer.text.split("\n").filter((line) => line.startsWith("#"));
    expect(headings).toEqual(HISTORY_HEADINGS);
  });

  it("gives the same bytes for the same request", async () => {
    const [first, second] = await Promise.all([ask(invoiceSession()), ask(invoiceSession())]);
    expect(first.text).toBe(second.text);
  });

  it("is shorter than what it replaces, and never longer than allowed", async () => {
    const long = Array.from({ length: 40 }, invoiceSession).flat();
    for (const maxOutputTokens of [200, 500, 1_000, 10_000]) {
      const { text } = await ask(long, { maxOutputTokens });
      expect(text.length).toBeLessThanOrEqual(Math.min(maxOutputTokens, 2_000) * 4);
    }
    const { text } = await ask(invoiceSession());
    const size = JSON.stringify(invoiceSession()).length;
    expect(text.length).toBeLessThan(size);
  });

  it("says that it was cut off where not even the headings fit", async () => {
    const answer = await ask(invoiceSession(), { maxOutputTokens: 10 });
    expect(answer.stopReason).toBe("length");
    expect(answer.text).toHaveLength(40);
  });
});

describe("the work of summarizing", () => {
  it("ends with `aborted` when the signal fires, before and in the middle", async () => {
    await expect(ask(invoiceSession(), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "aborted",
    });
    const controller = new AbortController();
    const many = Array.from({ length: 40 }, (_, index) => user(`${index} `.repeat(30_000)));
    const pending = ask(many, { signal: controller.signal });
    setTimeout(() => controller.abort(), 0);
    await expect(pending).rejects.toBeInstanceOf(EspalierError);
  });

  it("summarizes 50,000 messages, and one result of five million characters", async () => {
    const many: ContextMessage[] = [];
    for (let index = 0; many.length < 50_000; index++) {
      many.push(user(`Change fooBar${index} in src/file-${index}.ts, never touch bazQux${index}`));
      many.push(
        ...edit(`src/file-${index}.ts`, `const value${index} = 1;`),
        assistant(`Changed value${index}.`),
      );
    }
    const answer = await ask(many);
    const huge = await ask([
      user("Read the log"),
      ...run("cat server.log", "aGVsbG8gd29ybGQ/a.b-c_d ".repeat(210_000)),
    ]);
    expect(answer.text.length).toBeLessThanOrEqual(8_000);
    expect(section(huge.text, "## Goal")).toContain("Read the log");
  });
});
