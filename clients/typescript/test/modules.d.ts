// Packages that adapters are for, which need not be installed here.
declare module '@openai/agents/sandbox'
declare module '@openai/agents/sandbox/local'
