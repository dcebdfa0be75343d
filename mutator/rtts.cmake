# Round trips of a trace's sources.
target_sources(reprise_mutator
    PRIVATE rtts.cc PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES rtts.hh)

reprise_test(mutator_rtts_test LABEL unit LIBRARIES reprise_mutator SOURCES rtts_test.cc)
