// Steps and tools of sessions that are written for this project: a session is a list of turns, a turn the user's words, the
// steps, and the closing answer.

let calls = 0;

/** Text of a source file that has these names: long enough to be worth summarizing. */
const listing = (path, names) =>
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

/** What a command prints before it says how it ended. */
const progress = (command) =>
  Array.from(
    { length: 60 },
    (_, line) => `[${line + 1}/60] ${command.split(" ")[0]} is at work, ${(line + 1) * 7} of 420 done`,
  ).join("\n");

/** Tools of an agent: the call for each kind of step. */
export const claudeCode = {
  read: (path) => ["Read", { file_path: path }],
  edit: (path, text) => ["Edit", { file_path: path, old_string: "before", new_string: text }],
  run: (command) => ["Bash", { command, description: "Run it" }],
  plan: (todos) => ["TodoWrite", { todos }],
};
export const opencode = {
  read: (path) => ["read", { filePath: path }],
  edit: (path, text) => ["edit", { filePath: path, oldString: "before", newString: text }],
  run: (command) => ["bash", { command, description: "Run it", timeout: 60_000 }],
  plan: (todos) => [
    "todowrite",
    { todos: todos.map((todo, id) => ({ ...todo, id: `${id}`, priority: "high" })) },
  ],
};
export const gemini = {
  read: (path) => ["read_file", { absolute_path: path }],
  edit: (path, text) => ["replace", { file_path: path, old_string: "before", new_string: text }],
  run: (command) => ["run_shell_command", { command }],
  plan: (todos) => ["write_todos", { todos }],
};
const patchOf = (path, text) =>
  `*** Begin Patch\n*** Update File: ${path}\n@@\n-before\n+${text}\n*** End Patch`;
export const codexCode = {
  read: (path) => ["exec", { input: `text(await tools.exec_command({"cmd":"sed -n '1,200p' ${path}"}));` }],
  edit: (path, text) => [
    "exec",
    { input: `const patch = ${JSON.stringify(patchOf(path, text))};\nawait tools.apply_patch(patch);` },
  ],
  run: (command) => [
    "exec",
    { input: `text(await tools.exec_command({"cmd":${JSON.stringify(command)}}));` },
  ],
  plan: (todos) => [
    "exec",
    {
      input: `await tools.update_plan({"plan":${JSON.stringify(todos.map(({ content, status }) => ({ step: content, status })))}});`,
    },
  ],
};

export const read = (path, ...names) => ({ kind: "read", path, names });
export const edit = (path, text, words = "") => ({ kind: "edit", path, text, words });
export const run = (command, output, words = "") => ({ kind: "run", command, output, words });
export const fail = (command, output, words = "") => ({ ...run(command, output, words), failed: true });
export const plan = (...items) => ({
  kind: "plan",
  todos: items.map((item) => {
    const [mark, content] = [item[0], item.slice(2)];
    return { content, status: { x: "completed", "~": "in_progress" }[mark] ?? "pending" };
  }),
});

function stepMessages(tools, step) {
  const id = `call-${++calls}`;
  const made = {
    read: () => [tools.read(step.path), listing(step.path, step.names)],
    edit: () => [tools.edit(step.path, step.text), `Updated ${step.path}.`],
    run: () => [
      tools.run(step.command),
      `${progress(step.command)}\n${step.output}${step.failed ? "\nExit code: 1" : ""}`,
    ],
    plan: () => [tools.plan(step.todos), "ok"],
  };
  const [[name, values], output] = made[step.kind]();
  const words = step.words ? [{ type: "text", text: step.words }] : [];
  return [
    {
      role: "assistant",
      content: [...words, { type: "toolCall", id, name, arguments: values }],
      stopReason: "toolUse",
    },
    {
      role: "toolResult",
      toolCallId: id,
      toolName: name,
      content: [{ type: "text", text: output }],
      isError: step.failed === true,
    },
  ];
}

/** The messages of turns, with the tools of one agent. */
export const messagesOf = (tools, turns) =>
  turns.flatMap(([words, steps, closing]) => [
    { role: "user", content: words },
    ...steps.flatMap((step) => stepMessages(tools, step)),
    { role: "assistant", content: [{ type: "text", text: closing }], stopReason: "stop" },
  ]);
