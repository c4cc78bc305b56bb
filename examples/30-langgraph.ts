// An agent of LangGraph, with any of its models. Its thread is a session: a tree, a viewer, forks, one file.
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { type Bed, look, run } from "./garden.ts";

export async function ask(thread: string, prompt: string, model: BaseChatModel): Promise<string> {
  const tools = [
    tool((bed: Bed) => run(look.name, bed), {
      name: look.name,
      description: look.description,
      schema: look.parameters,
    }),
  ];
  const talker = model.bindTools?.(tools) ?? model;
  const checkpointer = new EspalierSaver();
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => ({ messages: [await talker.invoke(messages)] }))
    .addNode("tools", new ToolNode(tools))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => {
      const last = messages.at(-1);
      return AIMessage.isInstance(last) && last.tool_calls?.length ? "tools" : END;
    })
    .addEdge("tools", "model")
    .compile({ checkpointer });
  try {
    const input = { messages: [{ role: "user", content: prompt }] };
    const { messages } = await graph.invoke(input, { configurable: { thread_id: thread } });
    return messages.at(-1)?.text ?? "";
  } finally {
    await checkpointer.close(); // a server keeps one saver for all its graphs, and closes it when it ends
  }
}
