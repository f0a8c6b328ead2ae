"""Refusals: which ones say that a prompt exceeds the context, in the words of servers, and which
ones do not."""

import json
from typing import Any

import pytest

from core.client.failures import Denied, Refused, refusal
from tests.fakes.moody import events
from tests.helpers.asking import read_bytes

OVERFLOWS: dict[str, str] = {
    "OpenAI": (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9100 tokens. Please reduce the length of the messages."
    ),
    "OpenAI, responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again."
    ),
    "Azure": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
        "300100 tokens."
    ),
    "vLLM": (
        "This model's maximum context length is 32768 tokens. However, you requested 33768 tokens "
        "(1000 in the messages, 32768 in the completion). Please reduce the length of the messages "
        "or completion."
    ),
    "vLLM, cap": (
        "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context "
        "length is 8192 tokens and your request has 31 input tokens (16384 > 8192 - 31)."
    ),
    "vLLM, prompt": (
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768. Make "
        "sure that `max_model_len` is no smaller than the number of text tokens."
    ),
    "vLLM, 0.11": (
        "You passed 5001 input tokens and requested 1000 output tokens. However, the model's "
        "context length is only 4096 tokens, resulting in a maximum input length of 3096 tokens."
    ),
    "SGLang": "The input (40000 tokens) is longer than the model's context length (32768 tokens).",
    "SGLang, sum": (
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You "
        "requested a total of 40000 tokens: 10000 tokens from the input messages and 30000 tokens "
        "for the completion."
    ),
    "SGLang, allowed": (
        "Input length (40000 tokens) exceeds the maximum allowed length (32763 tokens). Use a "
        "shorter input or enable --allow-auto-truncate."
    ),
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "llama.cpp, counts": (
        "request (5120 tokens) exceeds the available context size (4096 tokens), try increasing it"
    ),
    "llama-cpp-python": "Requested tokens (2100) exceed context window of 2048",
    "Ollama": "the input length exceeds the context length",
    "Ollama, prompt": "prompt too long; exceeded max context length by 40 tokens",
    "LM Studio": (
        "The number of tokens to keep from the initial prompt is greater than the context length. "
        "Try to load the model with a larger context length, or provide a shorter input"
    ),
    "LM Studio, kept": (
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough."
    ),
    "TGI": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 "
        "`inputs` tokens and 200 `max_new_tokens`"
    ),
    "TGI, inputs": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Anthropic, sum": (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
        "input length or `max_tokens` and try again"
    ),
    "Bedrock": "The model returned the following errors: Input is too long for requested model.",
    "Google": (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    ),
    "Vertex": (
        "Unable to submit request because the input token count is 40000 but the model only "
        "supports up to 32768"
    ),
    "Mistral": (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length"
    ),
    "Cohere": (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. "
        "Try using a shorter prompt, or enabling prompt truncating."
    ),
    "Cohere, size": (
        "too many tokens: size limit exceeded by 2037 tokens. Try using shorter or fewer inputs."
    ),
    "Together": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 "
        "`inputs` tokens and 500 `max_new_tokens`"
    ),
    "Groq": "Please reduce the length of the messages or completion.",
    "Cerebras": (
        "Please reduce the length of the messages or completion. Current length is 9012 while "
        "limit is 8192"
    ),
    "DeepSeek": (
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens"
    ),
    "Fireworks": "The prompt is too long: 140000, model maximum context length: 131071",
    "OpenRouter": (
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 "
        'tokens. Please reduce the length of either one, or use the "middle-out" transform'
    ),
    "LiteLLM": (
        "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - no room"
    ),
    "xAI": "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    "TensorRT-LLM": (
        "Prompt length (5056) exceeds maximum input length (4096). Set log level to info and check "
        "TRTGptModel logs for how maximum input length is set"
    ),
    "TensorRT-LLM, sum": (
        "The sum of prompt length (8000.0), query length (0) and max_tokens (900) should not "
        "exceed max_num_tokens (8192)"
    ),
    "TensorRT-LLM, sequence": "Request length 9000 is larger than max_seq_len 8192",
    "MLC-LLM": (
        "Request prompt has 9000 tokens in total, larger than the model input length limit 8192."
    ),
    "TabbyAPI": "Prompt length 9000 is greater than max_seq_len 8192",
    "LMDeploy": "the input exceeds session_len 8192",
    "DashScope": "Range of input length should be [1, 30720]",
    "Moonshot": "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)",
    "MiniMax": "invalid params, context window exceeds limit (2013)",
    "Zhipu": "Prompt exceeds max length",
    "Cloudflare": (
        "The estimated number of input and maximum output tokens (9000) exceeded this model "
        "context window limit (8192)."
    ),
    "watsonx": (
        "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"
    ),
    "GitHub Models": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "Volcengine": "Total tokens of image and text exceed max message tokens",
    "OpenAI, characters": (
        "Invalid 'messages[0].content': string too long. Expected a string with maximum length 9, "
        "but got a string with length 10 instead."
    ),
    "Transformers": "Input is too long for this model, shorten your input",
    "a count": "The prompt has 9,012 tokens, which is more than the limit of 8,192 tokens",
    "a code alone": "context_length_exceeded",
    "Perplexity": (
        "The total number of tokens in the prompt and the max_tokens must be less than or equal to "
        "4096"
    ),
    "Databricks": "Error: the prompt and max_tokens exceed the model limit: 9000 + 100 > 8192",
    "Qianfan": "the max input characters is 20000",
    "Bedrock, characters": (
        "Malformed input request: expected maxLength: 300000, actual: 400000, please reformat your "
        "input and try again."
    ),
    "ONNX": "input_ids size (9000) exceeds max_length (4096)",
    "FastFlowLM": "Max length reached!",
    "Transformers, cap": "This call will exceed the model's predefined maximum length (4096)",
    "LoRAX": "Input is longer than the maximum of 4096 tokens",
    "a message": "Message exceeds max tokens (8192)",
    "a text": "The text is too long for the model (9000 tokens, maximum 8192)",
    "an allowance": "Your prompt contains 9000 tokens but this model allows only 8192",
    "another code alone": "prompt_too_long",
    "a fit": "The prompt does not fit into the model's context (9000 > 8192)",
}
OTHERS: dict[str, tuple[int, Any]] = {
    "Groq's limit per minute": (
        413,
        {
            "error": {
                "message": (
                    "Request too large for model `m` in organization `o` service tier `on_demand` "
                    "on tokens per minute (TPM): Limit 6000, Requested 7012, please reduce your "
                    "message size and try again."
                ),
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
    ),
    "OpenAI's limit per minute": (
        429,
        "Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000. The "
        "input or output tokens must be reduced in order to run successfully.",
    ),
    "Bedrock's limit": (429, "Too many tokens, please wait before trying again."),
    "a context that costs more": (429, "Extra usage is required for long context requests."),
    "an image": (
        400,
        "messages.0.content.1: image exceeds 5 MB maximum: 9000000 bytes > 5242880 bytes",
    ),
    "an input image": (400, "The input image is too large"),
    "a proxy's limit": (
        413,
        "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>",
    ),
    "a file": (413, "The uploaded file is too large"),
    "the cap of the output": (
        400,
        (
            "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for "
            "this model"
        ),
    ),
    "the cap of the completion": (
        400,
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    ),
    "the limit of the output": (
        400,
        "max_tokens exceeds the output token limit of this model (8192)",
    ),
    "a cap in a request": (
        400,
        "Invalid request: max_tokens exceeds the maximum of 8192 output tokens",
    ),
    "a cap of new tokens": (400, "The request exceeds the maximum of 8192 completion tokens"),
    "a message without text": (400, "message text must be a string"),
    "an unknown field": (400, "Unrecognized request argument supplied: min_p"),
    "a bad value": (400, "top_k must be -1 (disable), or at least 1, got 0."),
    "a passing error": (400, {"error": {"message": "Provider returned error", "code": 400}}),
    "a template": (400, "Conversation roles must alternate user/assistant"),
    "a filter": (
        400,
        "The response was filtered due to the prompt triggering the content management policy",
    ),
    "a repeated request": (
        422,
        {
            "detail": [
                {
                    "loc": ["body", "seed"],
                    "msg": "Input should be an integer",
                    "input": "the prompt is too long",
                }
            ]
        },
    ),
    "a word of the message": (400, "Invalid schema in this context: seed"),
}


@pytest.mark.parametrize("server", OVERFLOWS)
@pytest.mark.parametrize("form", ["OpenAI's", "a text", "in a provider's error"])
def test_a_prompt_that_exceeds_the_context_is_recognised(server: str, form: str) -> None:
    words = OVERFLOWS[server]
    nested = {
        "error": {
            "message": "Provider returned error",
            "metadata": {"raw": json.dumps({"message": words})},
        }
    }
    body = {
        "OpenAI's": {"error": {"message": words}},
        "a text": words,
        "in a provider's error": nested,
    }[form]
    for status in (400, 413, 422):
        found = refusal(status, body, {})
        assert found.is_overflow and found.is_of_its_prompt and not found.may_pass


@pytest.mark.parametrize("words", ["Prompt 超长", "输入长度超过限制", "上下文长度超过模型限制"])
def test_a_chinese_message_of_an_overflow_is_recognised(words: str) -> None:
    assert refusal(400, {"error": {"code": "1261", "message": words}}, {}).is_overflow


@pytest.mark.parametrize("kind", OTHERS)
def test_other_refusals_are_no_overflow(kind: str) -> None:
    status, body = OTHERS[kind]
    assert not refusal(status, body, {}).is_overflow


def test_the_code_of_an_overflow_counts_whatever_the_message_is() -> None:
    error = {"message": "no", "type": "invalid_request_error", "code": "context_length_exceeded"}
    assert refusal(400, {"error": error}, {}).is_overflow
    with pytest.raises(Refused) as raised:
        read_bytes(events([{"error": error}]))
    assert raised.value.is_overflow and not raised.value.may_pass, "within a stream, too"


def test_a_denied_key_or_model_is_told_from_a_filter() -> None:
    assert isinstance(refusal(401, "bad key", {}), Denied) and isinstance(
        refusal(404, "no model", {}), Denied
    )
    assert not isinstance(refusal(403, "content_filter", {}), Denied)
    assert not isinstance(refusal(400, "bad", {}), Denied)
