// Steps and tools for the sessions of this project: a session is a list of turns.
import type { AssistantBlock, StoredMessage } from "@espalier/session-tree";

/** Text of the user, steps of the agent, and its closing answer. */
export type Turn = readonly [words: string, steps: readonly Step[], closing: string];

/** A step of the agent: a call of a tool, with a text before it. */
type Step =
  | { kind: "read"; path: string; names: readonly string[] }
  | { kind: "edit"; path: string; text: string; words: string }
  | { kind: "run"; command: string; output: string; words: string; failed: boolean }
  | { kind: "plan"; todos: readonly Todo[] };

interface Todo {
  content: string;
  status: "completed" | "in_progress" | "pending";
}

/** Makes the text of a source file with these names, long enough to be summarized. */
const listing = (path: string, names: readonly string[]): string =>
  names
    .flatMap((name, at) => [
      `/** ${name}: step ${at + 1} of ${path}. */`,
      `export function ${name}(input) {`,
      `  const result = check(input, ${at + 3});`,
      ...Array.from(
        { length: 60 },
        (_, line) => `  if (result.part${line} === ${at * 7 + line}) return result.part${line} + ${line};`,
      ),
      "  return result;",
      "}",
      "",
    ])
    .join("\n");

/** Makes the output of a command before its result. */
const progress = (command: string): string =>
  Array.from(
    { length: 60 },
    (_, line) => `[${line + 1}/60] ${command.split(" ")[0]} is at work, ${(line + 1) * 7} of 420 done`,
  ).join("\n");

/** Name and arguments of a call. */
type Call = readonly [name: string, values: Record<string, unknown>];

/** Tools of an agent: makes the call for each kind of step. */
interface Tools {
  read(path: string): Call;
  edit(path: string, text: string): Call;
  run(command: string): Call;
  plan(todos: readonly Todo[]): Call;
}

export const claudeCode: Tools = {
  read: (path) => ["Read", { file_path: path }],
  edit: (path, text) => ["Edit", { file_path: path, old_string: "before", new_string: text }],
  run: (command) => ["Bash", { command, description: "Run it" }],
  plan: (todos) => ["TodoWrite", { todos }],
};

export const opencode: Tools = {
  read: (path) => ["read", { filePath: path }],
  edit: (path, text) => ["edit", { filePath: path, oldString: "before", newString: text }],
  run: (command) => ["bash", { command, description: "Run it", timeout: 60_000 }],
  plan: (todos) => [
    "todowrite",
    { todos: todos.map((todo, id) => ({ ...todo, id: `${id}`, priority: "high" })) },
  ],
};

export const gemini: Tools = {
  read: (path) => ["read_file", { absolute_path: path }],
  edit: (path, text) => ["replace", { file_path: path, old_string: "before", new_string: text }],
  run: (command) => ["run_shell_command", { command }],
  plan: (todos) => ["write_todos", { todos }],
};

const patchOf = (path: string, text: string): string =>
  `*** Begin Patch\n*** Update File: ${path}\n@@\n-before\n+${text}\n*** End Patch`;

const programOf = (source: string): Call => ["exec", { input: source }];

/** Codex in code mode: each call is a program of calls. */
export const codexCode: Tools = {
  read: (path) => programOf(`text(await tools.exec_command({"cmd":"sed -n '1,200p' ${path}"}));`),
  edit: (path, text) =>
    programOf(`const patch = ${JSON.stringify(patchOf(path, text))};\nawait tools.apply_patch(patch);`),
  run: (command) => programOf(`text(await tools.exec_command({"cmd":${JSON.stringify(command)}}));`),
  plan: (todos) => {
    const steps = todos.map(({ content, status }) => ({ step: content, status }));
    return programOf(`await tools.update_plan({"plan":${JSON.stringify(steps)}});`);
  },
};

export const read = (path: string, ...names: string[]): Step => ({ kind: "read", path, names });
export const edit = (path: string, text: string, words = ""): Step => ({ kind: "edit", path, text, words });
export const run = (command: string, output: string, words = ""): Step => ({
  kind: "run",
  command,
  output,
  words,
  failed: false,
});
export const fail = (command: string, output: string, words = ""): Step => ({
  kind: "run",
  command,
  output,
  words,
  failed: true,
});

/** Makes a list of tasks, each after its mark: `x` done, `~` begun, a blank for the others. */
export const plan = (...items: string[]): Step => ({
  kind: "plan",
  todos: items.map((item) => {
    const status = item.startsWith("x") ? "completed" : item.startsWith("~") ? "in_progress" : "pending";
    return { content: item.slice(2), status };
  }),
});

function callOf(tools: Tools, step: Step): { call: Call; output: string; isError: boolean } {
  if (step.kind === "read")
    return { call: tools.read(step.path), output: listing(step.path, step.names), isError: false };
  if (step.kind === "edit")
    return { call: tools.edit(step.path, step.text), output: `Updated ${step.path}.`, isError: false };
  if (step.kind === "plan") return { call: tools.plan(step.todos), output: "ok", isError: false };
  const ending = step.failed ? "\nExit code: 1" : "";
  return {
    call: tools.run(step.command),
    output: `${progress(step.command)}\n${step.output}${ending}`,
    isError: step.failed,
  };
}

/** Makes the messages of turns, with the tools of one agent. */
export function messagesOf(tools: Tools, turns: readonly Turn[]): StoredMessage[] {
  let calls = 0;
  const answer = (content: AssistantBlock[], stopReason: "stop" | "toolUse"): StoredMessage => ({
    role: "assistant",
    content,
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    stopReason,
    timestamp: 0,
  });
  const stepMessages = (step: Step): StoredMessage[] => {
    const id = `call-${++calls}`;
    const { call, output, isError } = callOf(tools, step);
    const [name, values] = call;
    const words = "words" in step && step.words ? [{ type: "text" as const, text: step.words }] : [];
    return [
      answer([...words, { type: "toolCall", id, name, arguments: values }], "toolUse"),
      {
        role: "toolResult",
        toolCallId: id,
        toolName: name,
        content: [{ type: "text", text: output }],
        isError,
        timestamp: 0,
      },
    ];
  };
  return turns.flatMap(([words, steps, closing]) => [
    { role: "user" as const, content: words, timestamp: 0 },
    ...steps.flatMap(stepMessages),
    answer([{ type: "text", text: closing }], "stop"),
  ]);
}
