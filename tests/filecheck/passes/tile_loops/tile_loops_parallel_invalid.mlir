// RUN: gathernest-opt %s -p "nest,drop-unit-loops,parallelize-loops{loops=outer,indices},tile-loops{loops=outer sizes=2}" --verify-diagnostics

// expected-error@unknown {{outer is parallel with indices in it, and outer_i would not be; tile outer first, then make both parallel}}
func.func @gather(%data: tensor<2x5x4xf32>, %indices: tensor<6xi64>) -> tensor<2x6x4xf32> {
  %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds clip : tensor<2x5x4xf32>, tensor<6xi64> -> tensor<2x6x4xf32>
  func.return %r : tensor<2x6x4xf32>
}
