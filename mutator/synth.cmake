# Synthesis: what its profiles need besides the parts that the mutator's library lists itself.
target_sources(reprise_mutator
    PRIVATE name_list.cc profiles.cc query_maker.cc root_names.cc synth_command.cc synth_sink.cc
    PUBLIC FILE_SET HEADERS
    FILES name_list.hh profiles.hh query_maker.hh root_names.hh synth_command.hh synth_sink.hh)

reprise_test(mutator_synth_test LABEL unit LIBRARIES reprise_mutator
    SOURCES name_list_test.cc profiles_test.cc root_names_test.cc synth_sink_test.cc)
reprise_test(mutator_synth_data_test LABEL unit LIBRARIES reprise_mutator
    SOURCES synth_data_test.cc)
if(TARGET mutator_synth_data_test)
    target_compile_definitions(mutator_synth_data_test PRIVATE
        REPRISE_SHARED_DEFAULT="${PROJECT_SOURCE_DIR}/../shared/data")
endif()
