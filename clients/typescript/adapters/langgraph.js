// Files for the checkpoints of LangGraph (tried with @langchain/langgraph 1.7): with each
// checkpoint of a graph a snapshot of the workspace is taken, so that going back to one
// brings its files, too.

/** @typedef {import('@amberfs/client').Workspace} Workspace */

/**
 * A checkpointer that does what saver does, and takes a snapshot for each checkpoint. Call
 * the graph with `durability: 'sync'`, else steps do not wait for their checkpoints.
 * @template {{put: Function, getTuple: Function}} Saver
 * @param {Saver} saver @param {Workspace} workspace @returns {Saver}
 */
export function withSnapshots(saver, workspace) {
  /** @param {any} config @param {any} checkpoint @param {any} metadata @param {any} versions */
  const put = async (config, checkpoint, metadata, versions) => {
    const message = `checkpoint ${checkpoint.id} of ${config.configurable?.thread_id}`
    const { name } = await workspace.snapshot(undefined, { message, if_changed: true })
    return saver.put(config, checkpoint, { ...metadata, snapshot: name }, versions)
  }
  return new Proxy(saver, {
    get(target, key) {
      if (key === 'put') return put
      const value = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/**
 * The snapshot of a checkpoint: of the newest of a thread, or of the one that config names.
 * @param {{getTuple: Function}} saver @param {object} config @returns {Promise<string>}
 */
export async function snapshotOf(saver, config) {
  const tuple = await saver.getTuple(config)
  if (!tuple?.metadata?.snapshot) throw new Error('this checkpoint has no snapshot')
  return tuple.metadata.snapshot
}

/**
 * Restores the files of a checkpoint. Then `graph.invoke(null, config)` goes on from there.
 * @param {{getTuple: Function}} saver @param {Workspace} workspace @param {object} config
 */
export async function restoreFiles(saver, workspace, config) {
  return workspace.restore(await snapshotOf(saver, config))
}

/**
 * A fork with the files of a checkpoint: another try, which leaves the workspace as it is.
 * @param {{getTuple: Function}} saver @param {Workspace} workspace @param {object} config
 */
export async function forkFiles(saver, workspace, config) {
  return workspace.fork(undefined, { snapshot: await snapshotOf(saver, config) })
}
