#pragma once
// Errors of set-up: thrown once, caught once in main. Bad packets are never exceptions.

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace reprise {

/// What the operator did or has wrong. The message is one line: what happened; how to fix it.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Wrong command line or options; main ends with exit status 2.
class UsageError : public Error {
public:
    using Error::Error;
};

/// Throws UsageError(what) unless it is so.
inline void demand(bool good, const std::string& what) {
    if (!good) {
        throw UsageError(what);
    }
}

/// A failed system call. `attempt` names what was tried, e.g. "bind 127.0.0.1:853".
class SystemError : public std::system_error {
public:
    explicit SystemError(const std::string& attempt, int error_number = errno);
};

/// Of the last system call; once here and not in each check().
[[noreturn]] void throw_system_error(const char* attempt);

/// Returns `result` unless it is negative; then throws SystemError(attempt).
template <typename T> T check(T result, const char* attempt) {
    if (result < 0) {
        throw_system_error(attempt);
    }
    return result;
}

} // namespace reprise
