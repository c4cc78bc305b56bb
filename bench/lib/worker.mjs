// One contender in a process of its own: loads it, does what it is told, answers with what came out.
const contender = await import(process.argv[2]);

process.on("message", async ({ task, args }) => {
  try {
    if (!contender.tasks[task]) process.send({ missing: `no task ${task}` });
    else process.send({ result: await contender.tasks[task](args) });
  } catch (error) {
    process.send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
});
process.send({ ready: true });
