export {
  type PrivateServer,
  type PrivateServerOptions,
  serverPrograms,
  startPrivateServer,
} from "./private-server.ts";
