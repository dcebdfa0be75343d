#pragma once
// fmt 9 does not declare what its library instantiates, so that each file which calls
// fmt::format_to() compiles all of fmt's code for numbers again. Part of the precompiled header;
// later versions declare it.

#include <fmt/format.h>

#if FMT_VERSION < 100000 && !defined(__clang__) // clang gives the function another symbol
FMT_BEGIN_NAMESPACE

namespace detail {
extern template void vformat_to<char>(buffer<char>& out, basic_string_view<char> text,
                                      basic_format_args<FMT_BUFFER_CONTEXT(char)> args,
                                      locale_ref locale);
} // namespace detail

FMT_END_NAMESPACE
#endif
