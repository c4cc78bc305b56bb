import type { ContextMessage } from "@espalier/session-tree";
import { describe, expect, it } from "vitest";
import { assistant, user } from "./build-messages.ts";
import { ask, edit, HISTORY_HEADINGS, invoiceSession, run, section, step } from "./extractive-sessions.ts";

const FIRST = "Port the importer to the new archive format without ever loading a whole file into memory";

/** One round of work: a request, changes, a check that fails in every third round, an answer. */
function round(number: number): ContextMessage[] {
  const path = `src/importer/stage-${number % 7}.ts`;
  return [
    user(
      `Round ${number}: make stage ${number} stream its ${number * 3} tables, never block for more than ${number} ms`,
    ),
    ...step(
      "",
      "read",
      { path },
      `export function readStage${number}() {}\nexport const LIMIT_${number}_MS = ${number};\n`,
    ),
    ...edit(path, `export function streamStage${number}() { return openCursor${number}(); }`),
    ...run(
      `npm test -- stage-${number}`,
      number % 3 === 0 ? `Error: stage ${number} hangs` : "ok",
      number % 3 === 0,
    ),
    assistant(`I decided to use openCursor${number} instead of readStage${number} because it streams.`),
  ];
}

const bullets = (text: string) => text.split("\n").filter((line) => line.startsWith("- "));

describe("a summary that is brought up to date again and again", () => {
  it("keeps the first goal and tells the newest request, within the limit and with no line twice, for 60 rounds", async () => {
    let summary = (await ask([user(FIRST), ...round(1)])).text;
    for (let number = 2; number <= 60; number++) {
      const answer = await ask(round(number), { previousSummary: summary });
      summary = answer.text;
      expect(answer.stopReason).toBe("stop");
      expect(summary.length).toBeLessThanOrEqual(8_000);
      expect(summary.split("\n").filter((line) => line.startsWith("#"))).toEqual(HISTORY_HEADINGS);
      expect(section(summary, "## Goal")).toContain(`First request: "${FIRST}"`);
      expect(section(summary, "## Goal")).toContain(
        `Newest request: "Round ${number}: make stage ${number} stream its ${number * 3} tables, never block for more than ${number} ms"`,
      );
      expect(new Set(bullets(summary)).size).toBe(bullets(summary).length);
    }
    // What is new is told, what is old has made room for it, and failures have not piled up.
    expect(summary).toContain("openCursor60");
    expect(summary).not.toContain("readStage2 ");
    expect(bullets(section(summary, "### Blocked")).length).toBeLessThanOrEqual(5);
    expect(bullets(section(summary, "### Done")).length).toBeGreaterThan(1);
  });

  it("keeps the rest of a long first request while there is room, but not of one that was the newest", async () => {
    const plan = (name: string) =>
      `Plan of the ${name}. ${Array.from({ length: 32 }, (_, at) => `The ${name} gets part ${at}.`).join(" ")}`;
    const source = "static int read_part(void) { return adc_read(PART) * SCALE; }\n".repeat(100);
    const turn = (words: string) => [user(words), ...edit("src/gauge.c", source), assistant("Done.")];
    const first = await ask([...turn(plan("gauge")), ...turn(plan("weir"))]);
    expect(section(first.text, "## Goal")).toMatch(/^- It goes on: "[^"]*The weir gets part 31\."$/m);
    const { text } = await ask(turn("Now the ferry."), { previousSummary: first.text });
    const goal = section(text, "## Goal");
    expect(goal).toMatch(
      /^- First request: "Plan of the gauge\..*\n- It goes on: "[^"]*The gauge gets part 31\."/,
    );
    expect(goal).not.toContain("The weir gets part 31");
    expect(goal).toContain('Newest request: "Now the ferry."');
  });

  it("keeps the rest of the newest request behind it while no newer one comes", async () => {
    const plan = (name: string) =>
      `Plan of the ${name}. ${Array.from({ length: 32 }, (_, at) => `The ${name} gets part ${at}.`).join(" ")}`;
    const source = "static int read_part(void) { return adc_read(PART) * SCALE; }\n".repeat(100);
    const turn = (words: string) => [user(words), ...edit("src/gauge.c", source), assistant("Done.")];
    const first = await ask([...turn(plan("gauge")), ...turn(plan("weir"))]);
    const { text } = await ask([...edit("src/weir.c", source), assistant("Still at work.")], {
      previousSummary: first.text,
    });
    expect(section(text, "## Goal")).toMatch(
      /^- First request: .*\n- It goes on: .*gauge gets part 31\."\n- Newest request: "Plan of the weir\..*\n- It goes on: "The weir/,
    );
  });

  it("keeps the beginning of every request when forty turns come in four parts", async () => {
    const turns = Array.from({ length: 40 }, (_, at) => [
      user(`Gauge ${at} at the weir reports twice. ${"The log has more of it. ".repeat(12)}`),
      ...edit(`src/gauge${at}.c`, `int repeat${at};`),
      assistant(`The sender of gauge ${at} repeats a frame because its timer is shorter than the line.`),
    ]);
    let summary = (await ask(turns.slice(0, 10).flat())).text;
    for (const from of [10, 20, 30])
      summary = (await ask(turns.slice(from, from + 10).flat(), { previousSummary: summary })).text;
    for (const at of turns.keys()) expect(summary).toContain(`"Gauge ${at} at the weir`);
    expect(summary.length).toBeLessThanOrEqual(8_000);
  });

  it("knows the changed files that an earlier summary only names", async () => {
    const paths = Array.from({ length: 12 }, (_, at) => `src/stations/station-${at}.ts`);
    const before = await ask([
      user("Give every station a timeout."),
      ...paths.flatMap((path) => edit(path, "export const timeout = 30;")),
      assistant("All stations have one."),
    ]);
    expect(before.text).toMatch(/^- Also changed: .*station-0\.ts/m);
    const after = await ask(
      [user("Longer at station 0."), ...edit(paths[0]!, "export const timeout = 60;")],
      {
        previousSummary: before.text,
      },
    );
    expect(after.text).toContain("- `src/stations/station-0.ts` (changed 2×)");
    for (const path of paths) expect(after.text).toContain(`\`${path}\``);
  });

  it("holds on to standing rules while newer ones come and go", async () => {
    let summary = (
      await ask([
        user("Build the importer."),
        assistant("Yes."),
        user("Always write to /srv/archive, never to /tmp. Only use tabs for indentation."),
      ])
    ).text;
    for (let number = 1; number <= 30; number++)
      summary = (await ask(round(number), { previousSummary: summary })).text;
    expect(section(summary, "## Constraints & Preferences")).toContain(
      "Always write to /srv/archive, never to /tmp",
    );
    expect(section(summary, "## Constraints & Preferences")).toContain("Only use tabs for indentation");
  });

  it("keeps the names of its newest calls, which the next update does not list as calls", async () => {
    const before = await ask([
      user("Why is the deployment refused?"),
      ...step("", "Deployments", { query: "--canary-share 5 billing_ledger" }, "waiting"),
    ]);
    expect(section(before.text, "### In Progress")).toContain("Called: `Deployments --canary-share 5");
    expect(before.text).not.toContain("Names in use: --canary-share");
    const after = await ask([...step("", "read", { path: "deploy/policy.yml" }, "share: 1")], {
      previousSummary: before.text,
    });
    expect(section(after.text, "## Critical Context")).toMatch(
      /Names in use: .*--canary-share.*billing_ledger/,
    );
  });

  it("drops listed names one update after the other, the last ones first, unless they are written again", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `ledgerColumn${String.fromCharCode(65 + index)}`);
    let summary = `## Goal\nFirst request: "List the columns."\n\n## Critical Context\n- Names in use: ${names.join(", ")}`;
    const kept: number[] = [];
    for (let update = 0; update < 3; update++) {
      summary = (
        await ask([user("Go on, please, with the next file."), assistant("Read ledgerColumnT.")], {
          previousSummary: summary,
        })
      ).text;
      kept.push(names.filter((name) => summary.includes(name)).length);
    }
    expect(kept[0]).toBeLessThan(20);
    expect(kept[0]).toBeGreaterThan(10);
    expect(kept[2]).toBeLessThan(kept[0]!);
    expect(summary).toContain("ledgerColumnA");
    expect(summary).toContain("ledgerColumnT");
  });

  it("keeps what was found in a turn that later messages continue without saying it again", async () => {
    const cause = "The queue stalls because the consumer holds its lock while it waits for the broker.";
    let summary = (
      await ask([
        user("Find out why the queue between the shop and the warehouse stalls at night, and mend it"),
        ...step("", "read", { path: "src/consumer.ts" }, "export const lock = 1;"),
        ...step(cause, "read", { path: "src/broker.ts" }, "export const wait = 2;"),
      ])
    ).text;
    for (const file of ["retry", "backoff", "metrics"]) {
      const next = step("Now the next file.", "read", { path: `src/${file}.ts` }, "export {};");
      summary = (await ask(next, { previousSummary: summary })).text;
      expect(summary).toContain(cause);
      expect(summary.split(cause)).toHaveLength(2);
      expect(section(summary, "### In Progress")).toContain("not finished yet");
    }
    const end = [assistant("The lock is released first."), user("And the retries?"), assistant("Unchanged.")];
    const { text } = await ask(end, { previousSummary: summary });
    expect(section(text, "### Done")).toContain(cause);
    expect(section(text, "### Done").split("stalls at night, and mend it")).toHaveLength(2);
  });

  it("lists the newest commands of the previous summary in the next update, but not its calls of other tools", async () => {
    const before = await ask([
      user("Start the ledger service on the test machine"),
      ...run("podman compose up ledger --detach", "started"),
      ...step("", "read", { path: "src/ledger.ts" }, "export {};"),
      ...step("", "Bash", { command: "git status --short" }, "M src/ledger.ts"),
    ]);
    expect(before.text).not.toContain("Commands: ");
    const after = await ask([...edit("src/ledger.ts", "export {};"), assistant("It is started.")], {
      previousSummary: before.text,
    });
    const commands = after.text.split("\n").filter((line) => line.startsWith("- Commands: "));
    expect(commands).toEqual(["- Commands: `podman compose up ledger --detach`"]);
  });

  it("moves what was in progress to what is done, and drops an error that a later run resolved", async () => {
    const before = await ask(invoiceSession());
    expect(section(before.text, "### In Progress")).toContain("Good. Now write the export as");
    const after = await ask(
      [
        ...edit("src/export/write-csv.ts", 'import type { InvoiceRow } from "../billing/types.ts";'),
        ...run("npm run lint", "no problems"),
        assistant("The CSV export is written by `writeInvoiceCsv`, with semicolons."),
      ],
      { previousSummary: before.text },
    );
    expect(section(after.text, "### In Progress")).toBe("(none)");
    expect(section(after.text, "### Blocked")).not.toContain("npm run lint");
    expect(section(after.text, "### Done")).toContain("with semicolons.");
    expect(section(after.text, "### Done")).toContain("Now write the export as CSV");
    expect(section(after.text, "### Done")).toContain("changed `round-amount.ts`");
    expect(after.text).toContain("`src/export/write-csv.ts` (changed 2×)");
  });

  it("takes over what a model wrote, and lets the engine's blocks go", async () => {
    const previousSummary = [
      "## Goal",
      "Move the billing service to Postgres 16 before June.",
      "",
      "## Constraints & Preferences",
      "- The old API stays until v3",
      "",
      "## Progress",
      "### Done",
      "- [x] Dumped the schema to db/schema.sql",
      "### In Progress",
      "- [ ] Rewrite `src/db/pool.ts`",
      "### Blocked",
      "- `npm run migrate` fails with ECONNREFUSED",
      "",
      "## Key Decisions",
      "- **pg-native**: left out, it does not build on arm64",
      "",
      "## Next Steps",
      "1. Run the migration",
      "",
      "## Critical Context",
      "- The staging host is db-staging-3 on port 5433, user `billing_rw`",
      "",
      "<goal>",
      "Never mind what stands here",
      "</goal>",
      "",
      "<read-files>",
      "src/secret-list.ts",
      "</read-files>",
    ].join("\n");
    const { text } = await ask(
      [
        user("Now rewrite the pool and migrate"),
        ...edit("src/db/pool.ts", "export function createPool() {}"),
        ...run("npm run migrate", "migrated 41 tables"),
        assistant("The pool is rewritten and 41 tables are migrated."),
      ],
      { previousSummary },
    );
    expect(section(text, "## Goal")).toContain("- Move the billing service to Postgres 16 before June.");
    expect(section(text, "## Constraints & Preferences")).toContain("- The old API stays until v3");
    expect(section(text, "### Done")).toContain("- Dumped the schema to db/schema.sql");
    expect(section(text, "### Done")).toContain("- Rewrite `src/db/pool.ts`");
    expect(section(text, "### In Progress")).toBe("(none)");
    expect(section(text, "### Blocked")).toBe("(none)");
    expect(section(text, "## Key Decisions")).toContain(
      "**pg-native**: left out, it does not build on arm64",
    );
    expect(section(text, "## Critical Context")).toContain("db-staging-3 on port 5433, user `billing_rw`");
    expect(text).not.toMatch(/secret-list|Never mind/);
  });

  it("knows what was done now to a file that an earlier summary tells of", async () => {
    const previousSummary = [
      "## Goal",
      "Move the billing service to Postgres.",
      "## Progress",
      "### In Progress",
      "- Rewrite `pool.ts`",
      "### Blocked",
      "- Changing `src/db/pool.ts` failed: `no match`",
      "## Critical Context",
      "- `src/db/pool.ts` (changed 2×)",
      "- `src/db/types.ts` (changed 1×)",
    ].join("\n");
    const { text } = await ask(
      [
        user("Now rewrite the pool and the types, please."),
        ...edit("src/db/pool.ts", "export function createPool() {}"),
        ...step("", "write", { path: "src/db/types.ts", content: "export type Row = object;" }, "ok"),
        ...step("", "edit", { path: "src/db/types.ts", oldText: "Row", newText: "Rows" }, "no match", true),
        assistant("The pool is rewritten, the types are not yet."),
      ],
      { previousSummary },
    );
    expect(section(text, "### Done")).toContain("- Rewrite `pool.ts`");
    expect(section(text, "### In Progress")).toBe("(none)");
    expect(section(text, "### Blocked")).toBe("- Changing `src/db/types.ts` failed: `no match`");
    expect(section(text, "## Critical Context")).toContain("`src/db/pool.ts` (changed 3×)");
    expect(section(text, "## Critical Context")).toContain("`src/db/types.ts` (changed 2×)");
  });

  it("drops the calls and steps of the beginning of a turn, and tells a push that succeeded later", async () => {
    const previousSummary = [
      '## Goal\n- First request: "Publish the menu"\n\n## Progress\n### Blocked',
      "- `git commit -m x && git push` failed: `error: failed to push some refs`\n\n---\n",
      '# Beginning of the current turn\n\n## Original Request\n- Newest request: "Add a dark theme"',
      '\n## Early Progress\n- "Add a dark theme" → not finished yet\n- Called: `ls src` → "menu.css"',
      "\n## Context for Suffix\n- Go on with the newest request.\n- `src/menu.css` (changed 2×)",
    ].join("\n");
    const { text } = await ask([...run("git pull && git push", "ok"), assistant("It is pushed.")], {
      previousSummary,
    });
    expect(text).not.toMatch(/Called:|Go on with/);
    expect(section(text, "## Key Decisions")).toBe("(none)");
    expect(section(text, "## Critical Context")).toContain("- `src/menu.css` (changed 2×)");
    expect(section(text, "### Blocked")).toBe(
      "- `git commit -m x && git push` had failed: `error: failed to push some refs`; `git pull && git push` succeeded",
    );
  });

  const todos = (...states: string[]) =>
    step(
      "",
      "todo_write",
      { todos: states.map((status, index) => ({ content: `Build part ${index + 1}`, status })) },
      "The list is written.",
    );

  it("settles open tasks by a newer list, also by that of a turn that is summarized apart", async () => {
    const { text: previousSummary } = await ask([
      user("Build the three parts of the export"),
      ...todos("in_progress", "pending", "pending"),
      assistant("I begin with the first part."),
    ]);
    const tasks = /Task (?:open|under way|done): "[^"]+"/g;
    expect(previousSummary.match(tasks)).toEqual([
      'Task under way: "Build part 1"',
      'Task open: "Build part 2"',
      'Task open: "Build part 3"',
    ]);
    const next = [user("Which separator does it write?"), assistant("It writes semicolons.")];
    const without = await ask(next, { previousSummary });
    expect(without.text.match(tasks)).toEqual(previousSummary.match(tasks));
    const listed = await ask([...next, ...todos("completed", "completed", "completed")], { previousSummary });
    expect(section(listed.text, "## Next Steps")).not.toContain("Task");
    expect(section(listed.text, "### In Progress")).not.toContain("Task");
    const following = [user("Now build the second part"), ...todos("completed", "in_progress", "cancelled")];
    const apart = await ask(next, { previousSummary, following });
    expect(apart.text).not.toMatch(tasks);
    const turn = await ask(following, { purpose: "turn-prefix" });
    expect(turn.text.match(tasks)).toEqual(['Task done: "Build part 1"', 'Task under way: "Build part 2"']);
  });

  it("reads a task list of Gemini", async () => {
    const list = [
      { description: "Build part 1", status: "cancelled" },
      { description: "Build part 2", status: "pending" },
    ];
    const { text } = await ask([
      user("Build the two parts of the export"),
      ...step("", "write_todos", { todos: list }, "Successfully updated the todo list."),
      assistant("The second part is left."),
    ]);
    expect(text.match(/Task .*/g)).toEqual(['Task open: "Build part 2"']);
  });

  it("settles a failure by the success in a turn that is summarized apart", async () => {
    const failing = [user("Build it all"), ...run("npm run build", "Error: no such target", true)];
    expect(section((await ask(failing)).text, "### Blocked")).toContain("`npm run build` failed");
    const following = [user("Add the target, then build"), ...run("npm run build", "built")];
    const { text } = await ask(failing, { following });
    expect(section(text, "### Blocked")).toBe(
      "- `npm run build` had failed: `Error: no such target`; `npm run build` succeeded",
    );
    const { text: previousSummary } = await ask(failing);
    const update = await ask([user("Wait"), assistant("I wait.")], { previousSummary, following });
    expect(section(update.text, "### Blocked")).not.toContain("`npm run build` failed");
  });

  it("tells a turn as past, in the user's whole words, when the next one is summarized apart", async () => {
    const request = `Jamais d'unsafe. Oui, il faut rester compatible avec la version ${"très ".repeat(8)}ancienne.`;
    const history = [
      user("Ajoute les chaînes au lexer"),
      assistant("Avec unsafe ?"),
      user(request),
      ...run("cargo test", "ok"),
    ];
    const following = [user("Écris maintenant le message du commit"), ...run("git status", "clean")];
    const { text } = await ask(history, { following });
    expect(section(text, "### Done")).toContain(`"${request}" → `);
    expect(section(text, "### Done")).not.toContain("not finished yet");
    expect(section(text, "## Constraints & Preferences")).toContain("Jamais d'unsafe");
    expect(section(text, "### In Progress")).toBe("(none)");
    expect(section(text, "## Next Steps")).toBe("(none)");
    expect(text).not.toMatch(/Newest|The agent had asked/);
  });

  it.each([
    "Ab jetzt bleibt die Datei so stehen.",
    "Y evita usar shell en los playbooks.",
    "Ne mentionne pas le nom du client.",
    "O lote tem no máximo 2000 linhas.",
    "Не больше 25 сообщений в секунду.",
    "この鍵は絶対に表示しない。",
    "استخدم دائمًا خط القاهرة في العناوين.",
  ])("keeps a rule of a language that the finder does not read: %s", async (rule) => {
    const first = [user("Fix the first page"), assistant("The page is fixed.")];
    const { text } = await ask([...first, user(rule), assistant("Understood."), user("Fix the second page")]);
    expect(section(text, "## Constraints & Preferences")).toBe(`- "${rule}"`);
  });

  it.each(["yes, go ahead", "ok, continue please", "はい、続けてください", "ja, mach weiter!"])(
    "reads no new request in words that only say to go on: %s",
    async (words) => {
      const { text } = await ask([
        user("Fix the page of the invoice"),
        assistant("Shall I begin?"),
        user(words),
      ]);
      expect(text).toContain(`Newest words: "${words}"`);
      expect(text).not.toContain("Newest request");
    },
  );

  it("tells an open failure as past after two more requests, and a repeated one once", async () => {
    const failing = [user("Build it all"), ...run("npm run build", "Error: no such target", true)];
    const { text: previousSummary } = await ask(failing);
    const question = [user("Which target is the default?"), assistant("The first one.")];
    const blocked = async (...messages: ContextMessage[]) =>
      section((await ask(messages, { previousSummary })).text, "### Blocked");
    expect(await blocked(...question)).toBe("- `npm run build` failed: `Error: no such target`");
    expect(await blocked(...question, user("And where is it written?"), assistant("In the Makefile."))).toBe(
      "- `npm run build` had failed: `Error: no such target`; it was not repeated",
    );
    expect(await blocked(...question, ...run("npm run build", "Error: no space left", true))).toBe(
      "- `npm run build` failed: `Error: no space left`",
    );
  });

  it("puts the lines of a turn's beginning where they belong", async () => {
    const previousSummary = [
      '## Goal\n- First request: "Publish the menu"\n\n---\n\n# Beginning of the current turn\n',
      '## Original Request\n- Newest request: "Add a dark theme to the menu"\n\n## Early Progress',
      '- "Add a dark theme to the menu" → changed `menu.css`; not finished yet',
      '- Task done: "Choose colors"\n- `npm run lint` failed: `Error: unknown color`\n\n## Context for Suffix',
      '- Task open: "Test the contrast"\n- "The footer stays light because it has the logo."',
    ].join("\n");
    const { text } = await ask([...edit("src/menu.css", "a {}"), assistant("The theme is written.")], {
      previousSummary,
    });
    expect(section(text, "### Done")).toBe(
      '- Task done: "Choose colors"\n- "Add a dark theme to the menu" → changed `menu.css`; "The theme is written."',
    );
    expect(section(text, "### Blocked")).toBe("- `npm run lint` failed: `Error: unknown color`");
    expect(section(text, "## Key Decisions")).toBe('- "The footer stays light because it has the logo."');
    expect(section(text, "## Next Steps")).toContain('- Task open: "Test the contrast"');
  });

  it("goes on with the beginning of a turn that an earlier summary tells of", async () => {
    const turn =
      "# Beginning of the current turn\n\n## Original Request\nAdd a dark theme\n\n## Early Progress\n- Wrote `src/dark.css`\n\n## Context for Suffix\n- (none)";
    const previousSummary = `## Goal\n- First request: "Build the site"\n- Newest request: "Add a menu"\n\n---\n\n${turn}`;
    const { text } = await ask(
      [
        ...edit("src/dark.css", ".a { color: #123456 }"),
        assistant("The dark theme is finished: src/dark.css."),
      ],
      { previousSummary },
    );
    const goal = section(text, "## Goal");
    expect(goal).toContain('First request: "Build the site"');
    expect(goal).toContain("Newest request: Add a dark theme");
    expect(goal).toContain('Earlier request: "Add a menu"');
    expect(section(text, "### Done")).toContain('"Add a dark theme" → changed `dark.css`');
  });

  it("reads summaries that stand among the messages, and tells a branch's as a branch's", async () => {
    const { text } = await ask([
      {
        role: "compactionSummary",
        summary: '## Goal\n- First request: "Write the parser"',
        tokensBefore: 1,
        timestamp: 1,
      },
      {
        role: "branchSummary",
        summary: "## Goal\n- Try a PEG grammar\n\n## Progress\n### Done\n- Measured peg.js: 40 ms",
        fromId: "x",
        timestamp: 2,
      },
      user("Go on with the hand-written one"),
    ]);
    expect(section(text, "## Goal")).toContain('First request: "Write the parser"');
    expect(section(text, "### Done")).toContain("In another branch: Measured peg.js: 40 ms");
    expect(section(text, "## Critical Context")).toContain("In another branch: Try a PEG grammar");
  });
});

const CLAUDE_CODE = `This session is being continued from a previous conversation that ran out of context.
Analysis:
1. **First** - the user asked for the importer.

Summary:
1. Primary Request and Intent:
   - Port the importer to the archive format without loading a whole file

2. Key Technical Concepts:
   - Archives have an index at their end

3. Files and Code Sections:
   - **\`src/importer/read.ts\`** - Reads the index first
     \`\`\`ts
     export const SECRET_OF_THE_CODE = 1;
     \`\`\`

4. Errors and fixes:
   - **The index was read twice** - Fixed by a cache

5. Problem Solving:
   1. Chose a cursor because it streams

6. All user messages:
   - "Port the importer"

7. Pending Tasks:
   - Delete the old reader

8. Current Work:
   - The cursor for \`pages/<id>\` is half written. I added:
     \`\`\`ts
     const SECRET_OF_THE_CODE = 2;
     \`\`\`

9. Optional Next Step:
   - Finish the cursor

If you need specific details from before compaction, read the full transcript at: /home/ada/t.jsonl
Please continue the conversation from where we left it off without asking the user any further questions.`;

const GEMINI_CLI = `<state_snapshot>
    <overall_goal>
        Port the importer to the archive format
    </overall_goal>
    <key_knowledge>
        - Archives have an index at their end
    </key_knowledge>
    <current_plan>
        1. [TODO] Finish the cursor
    </current_plan>
</state_snapshot>`;

describe("a summary that another agent wrote", () => {
  const more = [...step("", "bash", { command: "ls" }, "read.ts"), assistant("There is one file.")];

  it("is taken apart by the sections of Claude Code, without its code and its frame", async () => {
    const { text } = await ask(more, { previousSummary: CLAUDE_CODE });
    expect(section(text, "## Goal")).toContain(
      "- Port the importer to the archive format without loading a whole file",
    );
    expect(section(text, "## Key Decisions")).toContain("**The index was read twice** - Fixed by a cache");
    expect(section(text, "## Key Decisions")).toContain("Chose a cursor because it streams");
    expect(section(text, "## Next Steps")).toContain("Delete the old reader");
    expect(section(text, "## Next Steps")).toContain("Finish the cursor");
    expect(section(text, "## Critical Context")).toContain("Archives have an index at their end");
    expect(section(text, "## Critical Context")).toContain("`src/importer/read.ts`");
    expect(text).toContain("The cursor for `pages/<id>` is half written. I added: …");
    expect(text).not.toMatch(/SECRET_OF_THE_CODE|Analysis|All user messages|without asking|full transcript/);
  });

  it("is taken apart by the elements of Gemini CLI", async () => {
    const { text } = await ask(more, { previousSummary: GEMINI_CLI });
    expect(section(text, "## Goal")).toContain("- Port the importer to the archive format");
    expect(section(text, "## Next Steps")).toContain("Finish the cursor");
    expect(section(text, "## Critical Context")).toContain("Archives have an index at their end");
    expect(text).not.toContain("state_snapshot");
  });
});
