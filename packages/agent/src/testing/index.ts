export { type ScriptedTurn, scriptedModel } from "./scripted-model.ts";
