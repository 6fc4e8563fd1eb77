-- What a script answers when the server refuses one of its commands and nothing is written yet (out of memory, a missing
-- permission): the error, marked so that the caller knows. nil if the answer is none. An error in a later write leaves the
-- earlier ones.
local function refused(answer)
	if type(answer) == 'table' and answer.err then
		return {err = answer.err .. ' (nothing was written)'}
	end
	return nil
end

