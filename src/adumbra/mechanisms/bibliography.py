"""Papers that more than one mechanism rests on."""

from __future__ import annotations

from adumbra.families.contract import Reference

__all__ = ["ANALYZE_GAUSS", "GAUSSIAN_DP", "JUPA", "LIP_AND_LOP", "RANDOMISED_RESPONSE"]

ANALYZE_GAUSS = Reference(
    "Dwork, Talwar, Thakurta, Zhang (2014), Analyze Gauss, STOC",
    "@inproceedings{dwork2014analyze, title={Analyze {Gauss}: Optimal Bounds for Privacy-Preserving Principal "
    "Component Analysis}, author={Dwork, Cynthia and Talwar, Kunal and Thakurta, Abhradeep and Zhang, Li}, "
    "booktitle={STOC}, year={2014}}",
)
GAUSSIAN_DP = Reference(
    "Dong, Roth, Su (2022), Gaussian Differential Privacy, JRSS B 84(1), Corollary 3.3",
    "@article{dong2022gaussian, title={Gaussian Differential Privacy}, author={Dong, Jinshuo and Roth, Aaron and Su, "
    "Weijie J.}, journal={Journal of the Royal Statistical Society B}, volume={84}, number={1}, year={2022}}",
)
JUPA = Reference(
    "Zhuang, Chang (2020), Utility-aware Privacy-preserving Data Releasing, arXiv:2005.04369",
    "@article{zhuang2020utility, title={Utility-aware Privacy-preserving Data Releasing}, author={Zhuang, Di and "
    "Chang, J. Morris}, journal={arXiv preprint arXiv:2005.04369}, year={2020}}",
)
RANDOMISED_RESPONSE = Reference(
    "Warner (1965), Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias, JASA 60(309)",
    "@article{warner1965randomized, title={Randomized Response: A Survey Technique for Eliminating Evasive Answer "
    "Bias}, author={Warner, Stanley L.}, journal={Journal of the American Statistical Association}, volume={60}, "
    "number={309}, year={1965}}",
)
LIP_AND_LOP = Reference(
    "Xu, Yang, Bai (2019), Laplace Input and Output Perturbation for Differentially Private Principal Components "
    "Analysis, Security and Communication Networks",
    "@article{xu2019laplace, title={Laplace Input and Output Perturbation for Differentially Private Principal "
    "Components Analysis}, author={Xu, Yahong and Yang, Geng and Bai, Shuangjie}, journal={Security and "
    "Communication Networks}, year={2019}}",
)
