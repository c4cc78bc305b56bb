// Runs one contender in a separate process: loads it, runs requested tasks, and answers with the results.
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
